// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * Measures operations of the kernel from within, and hands the numbers over in /sys/kernel/debug/weighbridge:
 *
 *   tests    one line a test: name, contexts, what it does
 *   run      takes "TEST name=value …" and runs it
 *   results  what was measured since the last write of "clear" to run
 */

#include <linux/bottom_half.h>
#include <linux/completion.h>
#include <linux/debugfs.h>
#include <linux/interrupt.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/seq_file.h>
#include <linux/timex.h>
#include <linux/uaccess.h>
#include <linux/utsname.h>
#include <linux/vmalloc.h>

#include "bench.h"

#define RESULTS_BYTES (4u << 20)
#define LARGEST_COUNT 100000u
#define LARGEST_LOOPS 1000000u
/* With interrupts off, or in a softirq, a batch must stay far below what a watchdog takes for a lock-up. */
#define LARGEST_ATOMIC 20000u
#define LARGEST_BATCHES 1000u
#define LARGEST_BULK 256u
#define LARGEST_SIZE (64u << 10)
#define LARGEST_ORDER 9u

static const char *const context_names[CONTEXTS] = {
	[PROCESS] = "process", [PREEMPT_OFF] = "preempt-off", [BH_OFF] = "bh-off", [SOFTIRQ] = "softirq", [IRQ_OFF] = "irq-off",
};

static DEFINE_MUTEX(one_at_a_time);
static struct dentry *folder;
/* Under the mutex. */
static char *results;
static size_t results_used;
/* When the module was loaded, by the CPU's counter and by the clock. */
static u64 ticks_when_loaded;
static u64 ns_when_loaded;

static const struct {
	const struct test *tests;
	const unsigned int *count;
} families[] = {
	{ basic_tests, &basic_test_count }, { alloc_tests, &alloc_test_count }, { together_tests, &together_test_count },
};

static const struct test *find_test(const char *name)
{
	unsigned int family, i;

	for (family = 0; family < ARRAY_SIZE(families); family++)
		for (i = 0; i < *families[family].count; i++)
			if (!strcmp(families[family].tests[i].name, name))
				return &families[family].tests[i];
	return NULL;
}

/* One batch in its context. */
struct in_softirq {
	struct tasklet_struct tasklet;
	const struct test *test;
	struct bench *bench;
	struct completion done;
	int error;
};

static void softirq_batch(struct tasklet_struct *tasklet)
{
	struct in_softirq *in = container_of(tasklet, struct in_softirq, tasklet);

	in->error = in->test->batch(in->bench);
	complete(&in->done);
}

static int batch_in(enum context context, const struct test *test, struct bench *bench)
{
	struct in_softirq in = { .test = test, .bench = bench };
	unsigned long flags;
	int error;

	switch (context) {
	case PREEMPT_OFF:
		preempt_disable();
		error = test->batch(bench);
		preempt_enable();
		return error;
	case BH_OFF:
		local_bh_disable();
		error = test->batch(bench);
		local_bh_enable();
		return error;
	case IRQ_OFF:
		local_irq_save(flags);
		error = test->batch(bench);
		local_irq_restore(flags);
		return error;
	case SOFTIRQ:
		init_completion(&in.done);
		tasklet_setup(&in.tasklet, softirq_batch);
		tasklet_schedule(&in.tasklet);
		wait_for_completion(&in.done);
		tasklet_kill(&in.tasklet);
		return in.error;
	default:
		return test->batch(bench);
	}
}

static __printf(1, 2) int say(const char *format, ...)
{
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(results + results_used, RESULTS_BYTES - results_used, format, arguments);
	va_end(arguments);
	if (length >= RESULTS_BYTES - results_used)
		return -ENOSPC;
	results_used += length;
	return 0;
}

static int hand_over(const struct test *test, const struct bench *bench, enum context context)
{
	size_t before = results_used;
	int error;
	u32 i;

	error = say("test %s size=%u count=%u loops=%u bulk=%u order=%u context=%s cpus=%u\n", test->name,
		    test->uses_size ? bench->size : 0, bench->count, bench->loops, bench->bulk, bench->order,
		    context_names[context], num_online_cpus());
	for (i = 0; !error && i < bench->sample_count; i++) {
		const struct sample *sample = &bench->samples[i];

		error = say("sample %s %llu %llu\n", test->parts[sample->part], sample->ops, sample->ns);
	}
	error = error ?: say("end\n");
	/* Half a test is none. */
	if (error)
		results_used = before;
	return error;
}

static int run_test(const struct test *test, struct bench *bench, enum context context)
{
	bool may_sleep = context == PROCESS;
	int error = -ENOMEM;
	u32 i;

	bench->gfp = may_sleep ? GFP_KERNEL : GFP_ATOMIC;
	bench->sample_room = bench->batches * (MAX_PARTS + 2 * num_possible_cpus());
	bench->samples = kvcalloc(bench->sample_room, sizeof(*bench->samples), GFP_KERNEL);
	bench->objects = kvcalloc(max(bench->count, bench->bulk), sizeof(*bench->objects), GFP_KERNEL);
	bench->buffer = kvzalloc(bench->size, GFP_KERNEL);
	if (!bench->samples || !bench->objects || !bench->buffer)
		goto free;
	error = test->prepare ? test->prepare(bench) : 0;
	if (error)
		goto free;
	/* The first batch fills caches, and is not handed over. */
	error = batch_in(context, test, bench);
	bench->sample_count = 0;
	for (i = 0; !error && i < bench->batches; i++) {
		error = batch_in(context, test, bench);
		cond_resched();
		if (signal_pending(current))
			error = error ?: -EINTR;
	}
	if (test->finish)
		test->finish(bench);
	error = error ?: hand_over(test, bench, context);
free:
	kvfree(bench->buffer);
	kvfree(bench->objects);
	kvfree(bench->samples);
	return error;
}

/* "name=value" into its place. */
static int take(char *word, struct bench *bench, enum context *context)
{
	const struct {
		const char *name;
		u32 *place;
		u32 least, most;
	} numbers[] = {
		{ "size", &bench->size, 8, LARGEST_SIZE },	{ "count", &bench->count, 1, LARGEST_COUNT },
		{ "loops", &bench->loops, 1, LARGEST_LOOPS },	{ "bulk", &bench->bulk, 1, LARGEST_BULK },
		{ "order", &bench->order, 0, LARGEST_ORDER },	{ "batches", &bench->batches, 1, LARGEST_BATCHES },
	};
	char *value = strchr(word, '=');
	unsigned int i;
	int found;

	if (!value)
		return -EINVAL;
	*value++ = '\0';
	if (!strcmp(word, "context")) {
		found = match_string(context_names, CONTEXTS, value);
		if (found < 0)
			return -EINVAL;
		*context = found;
		return 0;
	}
	for (i = 0; i < ARRAY_SIZE(numbers); i++) {
		if (strcmp(word, numbers[i].name))
			continue;
		if (kstrtou32(value, 10, numbers[i].place))
			return -EINVAL;
		return *numbers[i].place < numbers[i].least || *numbers[i].place > numbers[i].most ? -ERANGE : 0;
	}
	return -EINVAL;
}

static int run_line(char *line)
{
	struct bench bench = { .size = 256, .count = 256, .loops = 10000, .bulk = 16, .batches = 12 };
	enum context context = PROCESS;
	const struct test *test;
	char *word;
	int error = 0;

	word = strsep(&line, " ");
	if (!strcmp(word, "clear")) {
		results_used = 0;
		return 0;
	}
	test = find_test(word);
	if (!test)
		return -ENOENT;
	while (!error && (word = strsep(&line, " ")))
		if (*word)
			error = take(word, &bench, &context);
	if (error)
		return error;
	if (!(test->contexts & IN(context)))
		return -EOPNOTSUPP;
	if (context != PROCESS && (bench.loops > LARGEST_ATOMIC || bench.count > LARGEST_ATOMIC))
		return -ERANGE;
	return run_test(test, &bench, context);
}

static ssize_t run_write(struct file *file, const char __user *from, size_t length, loff_t *offset)
{
	char line[200];
	int error;

	if (length >= sizeof(line))
		return -EINVAL;
	if (copy_from_user(line, from, length))
		return -EFAULT;
	line[length] = '\0';
	error = mutex_lock_interruptible(&one_at_a_time);
	if (error)
		return error;
	error = run_line(strim(line));
	mutex_unlock(&one_at_a_time);
	return error ?: length;
}

static const struct file_operations run_operations = { .owner = THIS_MODULE, .write = run_write, .llseek = noop_llseek };

static int tests_show(struct seq_file *file, void *unused)
{
	unsigned int family, i, context;

	for (family = 0; family < ARRAY_SIZE(families); family++) {
		for (i = 0; i < *families[family].count; i++) {
			const struct test *test = &families[family].tests[i];
			char separator = '\t';

			seq_puts(file, test->name);
			for (context = 0; context < CONTEXTS; context++) {
				if (!(test->contexts & IN(context)))
					continue;
				seq_printf(file, "%c%s", separator, context_names[context]);
				separator = ',';
			}
			seq_printf(file, "\t%s\n", test->about);
		}
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(tests);

static int results_show(struct seq_file *file, void *unused)
{
	u64 ticks = get_cycles() - ticks_when_loaded, ns = now() - ns_when_loaded;

	mutex_lock(&one_at_a_time);
	seq_printf(file, "weighbridge-bench 1\nkernel %s\n", utsname()->release);
	/* How the CPU's counter, if there is one, goes beside the clock that times the batches. */
	if (ticks)
		seq_printf(file, "clock %llu %llu\n", ticks, ns);
	seq_write(file, results, results_used);
	mutex_unlock(&one_at_a_time);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(results);

static int __init bench_init(void)
{
	ticks_when_loaded = get_cycles();
	ns_when_loaded = now();
	results = vmalloc(RESULTS_BYTES);
	if (!results)
		return -ENOMEM;
	folder = debugfs_create_dir("weighbridge", NULL);
	if (IS_ERR(folder)) {
		vfree(results);
		return PTR_ERR(folder);
	}
	debugfs_create_file("tests", 0400, folder, NULL, &tests_fops);
	debugfs_create_file("run", 0200, folder, NULL, &run_operations);
	debugfs_create_file("results", 0400, folder, NULL, &results_fops);
	return 0;
}

static void __exit bench_exit(void)
{
	debugfs_remove(folder);
	vfree(results);
}

module_init(bench_init);
module_exit(bench_exit);
MODULE_DESCRIPTION("Measures operations of the kernel from within");
MODULE_AUTHOR("The Weighbridge authors");
MODULE_LICENSE("Dual MIT/GPL");

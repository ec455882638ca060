// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * kmalloc on all CPUs at once, freed where it was allocated, on another CPU, or everywhere.
 *
 * Each CPU hands over the operations that it did and its own time; one that does nothing in a phase hands over nothing.
 */

#include <linux/cpu.h>
#include <linux/completion.h>
#include <linux/kthread.h>
#include <linux/sched.h>

#include "bench.h"

struct worker;
typedef void (*phase_fn)(struct worker *worker);

struct worker {
	struct bench *bench;
	unsigned int cpu;
	void **objects;
	u32 count;	/* objects of this worker */
	u64 ns[2];	/* alloc, free */
	u64 ops[2];
	int error;
	/* Of the phase that runs. */
	phase_fn phase;
	atomic_t *waited_for;
	struct completion done;
	struct task_struct *task;
};

static void allocate(struct worker *worker)
{
	u64 start = now();
	u32 i;

	for (i = 0; i < worker->count; i++) {
		worker->objects[i] = kmalloc(worker->bench->size, GFP_KERNEL);
		if (unlikely(!worker->objects[i])) {
			worker->error = -ENOMEM;
			return;
		}
	}
	worker->ns[0] = now() - start;
	worker->ops[0] = worker->count;
}

static void release(struct worker *worker)
{
	u64 start = now();
	u32 i;

	for (i = 0; i < worker->count; i++) {
		kfree(worker->objects[i]);
		worker->objects[i] = NULL;
	}
	worker->ns[1] = now() - start;
	worker->ops[1] = worker->count;
}

static void pairs(struct worker *worker)
{
	u64 start = now();
	u32 i;

	for (i = 0; i < worker->count; i++) {
		void *object = kmalloc(worker->bench->size, GFP_KERNEL);

		if (unlikely(!object)) {
			worker->error = -ENOMEM;
			return;
		}
		barrier();
		kfree(object);
	}
	worker->ns[0] = now() - start;
	worker->ops[0] = worker->count;
}

static int run_phase(void *data)
{
	struct worker *worker = data;

	/* All begin together. */
	atomic_dec(worker->waited_for);
	while (atomic_read(worker->waited_for) > 0)
		cond_resched();
	worker->phase(worker);
	complete(&worker->done);
	/* Until it is stopped, so that no thread is in this module when it is unloaded. */
	set_current_state(TASK_INTERRUPTIBLE);
	while (!kthread_should_stop()) {
		schedule();
		set_current_state(TASK_INTERRUPTIBLE);
	}
	__set_current_state(TASK_RUNNING);
	return 0;
}

/* One phase on the CPUs of these workers; CPUs do not come or go meanwhile. */
static int in_phase(struct worker *workers, u32 count, phase_fn phase)
{
	atomic_t waited_for = ATOMIC_INIT(count);
	u32 made, i;
	int error = 0;

	for (made = 0; made < count; made++) {
		struct worker *worker = &workers[made];

		worker->phase = phase;
		worker->waited_for = &waited_for;
		init_completion(&worker->done);
		worker->task = kthread_create_on_node(run_phase, worker, cpu_to_node(worker->cpu), "weighbridge/%u", worker->cpu);
		if (IS_ERR(worker->task)) {
			error = PTR_ERR(worker->task);
			break;
		}
		kthread_bind(worker->task, worker->cpu);
	}
	for (i = 0; i < made; i++) {
		if (!error) {
			wake_up_process(workers[i].task);
			continue;
		}
		/* Never woken, it ends without running. */
		kthread_stop(workers[i].task);
	}
	for (i = 0; !error && i < made; i++) {
		wait_for_completion(&workers[i].done);
		kthread_stop(workers[i].task);
	}
	for (i = 0; !error && i < made; i++)
		error = workers[i].error;
	return error;
}

static void hand_over(struct bench *bench, struct worker *workers, u32 count)
{
	u32 i, part;

	for (i = 0; i < count; i++)
		for (part = 0; part < 2; part++)
			if (workers[i].ops[part])
				add_sample(bench, part, workers[i].ops[part], workers[i].ns[part]);
}

enum kind { OWN, PAIRS, REMOTE_FREE, ONE_ALLOCATES };

static int measured(struct bench *bench, enum kind kind)
{
	u32 cpus, per_cpu = bench->count, total, i = 0;
	struct worker *workers;
	unsigned int cpu;
	void **objects;
	int error;

	cpus_read_lock();
	cpus = num_online_cpus();
	error = -ENXIO;	/* one CPU frees nothing of another */
	if (cpus < 2)
		goto unlock;
	error = -ENOMEM;
	total = per_cpu * cpus;
	workers = kcalloc(cpus, sizeof(*workers), GFP_KERNEL);
	objects = kvcalloc(total, sizeof(*objects), GFP_KERNEL);
	if (!workers || !objects)
		goto free;
	for_each_online_cpu(cpu) {
		if (i == cpus)
			break;
		workers[i] = (struct worker){ .bench = bench, .cpu = cpu, .objects = objects + (size_t)i * per_cpu, .count = per_cpu };
		i++;
	}
	switch (kind) {
	case OWN:
		error = in_phase(workers, cpus, allocate) ?: in_phase(workers, cpus, release);
		break;
	case PAIRS:
		error = in_phase(workers, cpus, pairs);
		break;
	case REMOTE_FREE:
		/* All but the first allocate; the first frees what they have. */
		error = in_phase(workers + 1, cpus - 1, allocate);
		workers[0].objects = objects + per_cpu;
		workers[0].count = per_cpu * (cpus - 1);
		error = error ?: in_phase(workers, 1, release);
		break;
	case ONE_ALLOCATES:
		/* The first allocates what all others free. */
		workers[0].objects = objects + per_cpu;
		workers[0].count = per_cpu * (cpus - 1);
		error = in_phase(workers, 1, allocate) ?: in_phase(workers + 1, cpus - 1, release);
		break;
	}
	if (!error)
		hand_over(bench, workers, cpus);
	/* What an error has left behind; kfree of NULL does nothing. */
	for (i = 0; i < total; i++)
		kfree(objects[i]);
free:
	kvfree(objects);
	kfree(workers);
unlock:
	cpus_read_unlock();
	if (!error)
		add_sample(bench, 2, per_cpu, empty_loop(per_cpu));
	return error;
}

static int own(struct bench *bench) { return measured(bench, OWN); }
static int pairs_together(struct bench *bench) { return measured(bench, PAIRS); }
static int remote_free(struct bench *bench) { return measured(bench, REMOTE_FREE); }
static int one_allocates(struct bench *bench) { return measured(bench, ONE_ALLOCATES); }

#define TOGETHER(test_name, function, text)							\
	{ .name = "together-" test_name, .about = text, .parts = { "alloc", "free", "noop" },	\
	  .contexts = IN(PROCESS), .uses_size = true, .batch = function }

const struct test together_tests[] = {
	TOGETHER("pattern", own, "kmalloc on all CPUs: count are allocated on each, then all freed there"),
	TOGETHER("reuse", pairs_together, "kmalloc on all CPUs: allocated and freed at once"),
	TOGETHER("remote-free", remote_free, "kmalloc: all CPUs but one allocate count each, that one frees all"),
	TOGETHER("one-allocates", one_allocates, "kmalloc: one CPU allocates what all others free, count each"),
};
const unsigned int together_test_count = ARRAY_SIZE(together_tests);

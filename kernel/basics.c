// SPDX-License-Identifier: MIT OR GPL-2.0
/* Calls, locks, masks, atomics, lists, the clock, memset: what everything else is made of. */

#include <linux/atomic.h>
#include <linux/bottom_half.h>
#include <linux/irqflags.h>
#include <linux/list.h>
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/spinlock.h>
#include <linux/string.h>

#include "bench.h"

/* A loop around a statement, and then the same loop around nothing. */
#define LOOP(name, declare, ...)						\
	static int name(struct bench *bench)					\
	{									\
		u32 loops = bench->loops, i;					\
		u64 start;							\
		declare;							\
										\
		start = now();							\
		for (i = 0; i < loops; i++) {					\
			__VA_ARGS__;						\
			barrier();						\
		}								\
		add_sample(bench, 0, loops, now() - start);			\
		add_sample(bench, 1, loops, empty_loop(loops));			\
		return 0;							\
	}

static DEFINE_SPINLOCK(lock);
static DEFINE_PER_CPU(unsigned long, word_of_cpu);

static noinline void called(void)
{
	barrier();
}

/* Not static, so that no compiler knows where it leads. */
void (*weighbridge_called)(void) = called;

LOOP(empty, , )
LOOP(call, , called())
LOOP(call_pointer, , READ_ONCE(weighbridge_called)())
LOOP(clock, u64 sum = 0, sum += ktime_get_raw_ns(); OPTIMIZER_HIDE_VAR(sum))
LOOP(spin_lock_plain, , spin_lock(&lock); spin_unlock(&lock))
LOOP(spin_lock_bh_off, , spin_lock_bh(&lock); spin_unlock_bh(&lock))
LOOP(spin_lock_irq_off, , spin_lock_irq(&lock); spin_unlock_irq(&lock))
LOOP(spin_lock_irq_saved, unsigned long flags, spin_lock_irqsave(&lock, flags); spin_unlock_irqrestore(&lock, flags))
LOOP(spin_try_lock, , if (spin_trylock(&lock)) spin_unlock(&lock))
LOOP(bh_off, , local_bh_disable(); local_bh_enable())
LOOP(irq_off, , local_irq_disable(); local_irq_enable())
LOOP(irq_saved, unsigned long flags, local_irq_save(flags); local_irq_restore(flags))
LOOP(preempt_off, , preempt_disable(); preempt_enable())
LOOP(atomic_increment, atomic_t value = ATOMIC_INIT(0), atomic_inc(&value))
LOOP(compare_exchange, unsigned long value = 0, cmpxchg(&value, 0, 0))
LOOP(compare_exchange_local, unsigned long value = 0, cmpxchg_local(&value, 0, 0))
LOOP(compare_exchange_of_cpu, , this_cpu_cmpxchg(word_of_cpu, 0, 0))
LOOP(list, LIST_HEAD(head); struct list_head entry, list_add(&entry, &head); list_del(&entry))
LOOP(fill, , memset(bench->buffer, 0, bench->size))

#define TEST(test_name, function, where, text)					\
	{ .name = test_name, .about = text, .parts = { "op", "noop" }, .contexts = where, .batch = function }
#define TAKES_INTERRUPTS (IN(PROCESS) | IN(PREEMPT_OFF) | IN(BH_OFF) | IN(SOFTIRQ))
/* Whoever may not be in the middle of a bottom half or of masked interrupts. */
#define PLAIN (IN(PROCESS) | IN(PREEMPT_OFF) | IN(BH_OFF))

const struct test basic_tests[] = {
	TEST("noop", empty, ANYWHERE, "the loop alone"),
	TEST("call", call, ANYWHERE, "a function that does nothing"),
	TEST("call-pointer", call_pointer, ANYWHERE, "the same through a pointer"),
	TEST("clock", clock, ANYWHERE, "a reading of the clock that times the batches"),
	TEST("spin-lock", spin_lock_plain, ANYWHERE, "spin_lock and spin_unlock"),
	TEST("spin-trylock", spin_try_lock, ANYWHERE, "spin_trylock and spin_unlock"),
	TEST("spin-lock-bh", spin_lock_bh_off, PLAIN, "spin_lock_bh and spin_unlock_bh"),
	TEST("spin-lock-irq", spin_lock_irq_off, TAKES_INTERRUPTS, "spin_lock_irq and spin_unlock_irq"),
	TEST("spin-lock-irqsave", spin_lock_irq_saved, ANYWHERE, "spin_lock_irqsave and spin_unlock_irqrestore"),
	TEST("local-bh", bh_off, PLAIN, "local_bh_disable and local_bh_enable"),
	TEST("local-irq", irq_off, TAKES_INTERRUPTS, "local_irq_disable and local_irq_enable"),
	TEST("local-irqsave", irq_saved, ANYWHERE, "local_irq_save and local_irq_restore"),
	TEST("preempt", preempt_off, ANYWHERE, "preempt_disable and preempt_enable"),
	TEST("atomic-inc", atomic_increment, ANYWHERE, "atomic_inc"),
	TEST("cmpxchg", compare_exchange, ANYWHERE, "cmpxchg of a word"),
	TEST("cmpxchg-local", compare_exchange_local, ANYWHERE, "cmpxchg_local of a word"),
	TEST("this-cpu-cmpxchg", compare_exchange_of_cpu, ANYWHERE, "this_cpu_cmpxchg of a word"),
	TEST("list", list, ANYWHERE, "list_add and list_del"),
	{ .name = "memset", .about = "memset of size bytes", .parts = { "op", "noop" }, .contexts = ANYWHERE,
	  .uses_size = true, .batch = fill },
};
const unsigned int basic_test_count = ARRAY_SIZE(basic_tests);

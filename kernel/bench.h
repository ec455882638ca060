/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * A test is a loop around one operation of the kernel. It is timed in batches, and hands over the number of operations and
 * the nanoseconds of each. Nothing is averaged, sorted or divided here.
 */
#ifndef WEIGHBRIDGE_BENCH_H
#define WEIGHBRIDGE_BENCH_H

#include <linux/gfp.h>
#include <linux/ktime.h>
#include <linux/slab.h>
#include <linux/types.h>

/* Linux 6.5 and later can keep a cache apart from others of the same size. */
#ifdef SLAB_NO_MERGE
#define SLAB_NO_MERGE_IF_KNOWN SLAB_NO_MERGE
#else
#define SLAB_NO_MERGE_IF_KNOWN 0
#endif

/* Parts of an operation that are timed apart, such as alloc and free; the last one is the empty loop. */
#define MAX_PARTS 3

struct sample {
	u32 part;
	u64 ops;
	u64 ns;
};

/* What was asked for. */
struct bench {
	u32 size;	/* bytes of an object */
	u32 count;	/* objects that are allocated before the first is freed */
	u32 loops;	/* operations of a batch, where a test has no count */
	u32 bulk;	/* objects of one bulk call */
	u32 order;	/* pages are allocated 2^order at a time */
	u32 batches;
	gfp_t gfp;	/* as the context allows */

	struct kmem_cache *cache;
	void **objects;	/* room for count pointers, on one CPU */
	void *buffer;	/* size bytes */
	void *pool;	/* of a test that has one */

	struct sample *samples;
	u32 sample_count;
	u32 sample_room;
};

enum context { PROCESS, PREEMPT_OFF, BH_OFF, SOFTIRQ, IRQ_OFF, CONTEXTS };

#define IN(context) (1u << (context))
#define ANYWHERE (IN(CONTEXTS) - 1)

struct test {
	const char *name;
	const char *about;
	const char *parts[MAX_PARTS];
	u32 contexts;
	bool uses_size;
	/* Both may be absent. */
	int (*prepare)(struct bench *bench);
	void (*finish)(struct bench *bench);
	/* One batch: calls add_sample for each part. */
	int (*batch)(struct bench *bench);
};

static inline u64 now(void)
{
	return ktime_get_raw_ns();
}

/* Room was made for all batches before the first. */
static inline void add_sample(struct bench *bench, u32 part, u64 ops, u64 ns)
{
	if (WARN_ON_ONCE(bench->sample_count == bench->sample_room))
		return;
	bench->samples[bench->sample_count++] = (struct sample){ part, ops, ns };
}

/* What a loop costs in which nothing happens. */
static inline u64 empty_loop(u32 loops)
{
	u64 start = now();
	u32 i;

	for (i = 0; i < loops; i++)
		barrier();
	return now() - start;
}

extern const struct test basic_tests[];
extern const unsigned int basic_test_count;
extern const struct test alloc_tests[];
extern const unsigned int alloc_test_count;
extern const struct test together_tests[];
extern const unsigned int together_test_count;

#endif

// SPDX-License-Identifier: MIT OR GPL-2.0
/* Objects of a cache, kmalloc, pages, and a pool of objects: one at a time, many before the first is freed, and in bulk. */

#include <linux/bottom_half.h>
#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/ptr_ring.h>

#include "bench.h"

static int make_cache(struct bench *bench)
{
	bench->cache = kmem_cache_create("weighbridge", bench->size, 0, SLAB_HWCACHE_ALIGN | SLAB_NO_MERGE_IF_KNOWN, NULL);
	return bench->cache ? 0 : -ENOMEM;
}

static void end_cache(struct bench *bench)
{
	kmem_cache_destroy(bench->cache);
	bench->cache = NULL;
}

/* The ways to get an object and to give it back. */
static inline void *get_kmalloc(struct bench *bench) { return kmalloc(bench->size, bench->gfp); }
static inline void put_kmalloc(struct bench *bench, void *object) { kfree(object); }
static inline void *get_cache(struct bench *bench) { return kmem_cache_alloc(bench->cache, bench->gfp); }
static inline void put_cache(struct bench *bench, void *object) { kmem_cache_free(bench->cache, object); }
static inline void *get_page_of(struct bench *bench) { return alloc_pages(bench->gfp, bench->order); }
static inline void put_page_of(struct bench *bench, void *page) { __free_pages(page, bench->order); }

/*
 * A pool of free objects before a cache, of two levels as qmempool has them: a queue of each CPU, which needs no lock, and a
 * ring that all CPUs share. Objects move between the levels in bulk; what neither has comes from the cache, and what has no
 * room goes back to it. Whoever uses it can neither move to another CPU nor meet another user on its own.
 */
#define QUEUE_OBJECTS 32u
#define SHARED_OBJECTS 512
#define MOVED_OBJECTS 16u

struct queue {
	u32 head, tail;	/* the number of objects put in and taken out so far */
	void *objects[QUEUE_OBJECTS];
};

struct pool {
	struct queue __percpu *queues;
	struct ptr_ring shared;
};

static noinline void *get_shared(struct bench *bench, struct pool *pool, struct queue *queue)
{
	void *moved[MOVED_OBJECTS];
	int got = ptr_ring_consume_batched(&pool->shared, moved, MOVED_OBJECTS);

	if (!got)
		return kmem_cache_alloc(bench->cache, GFP_ATOMIC);
	while (--got)
		queue->objects[queue->head++ % QUEUE_OBJECTS] = moved[got];
	return moved[0];
}

static noinline void put_shared(struct bench *bench, struct pool *pool, struct queue *queue)
{
	u32 i;

	spin_lock(&pool->shared.producer_lock);
	for (i = 0; i < MOVED_OBJECTS; i++) {
		void *object = queue->objects[queue->tail++ % QUEUE_OBJECTS];

		if (__ptr_ring_produce(&pool->shared, object))
			kmem_cache_free(bench->cache, object);
	}
	spin_unlock(&pool->shared.producer_lock);
}

static inline void *get_pool(struct bench *bench)
{
	struct pool *pool = bench->pool;
	struct queue *queue = this_cpu_ptr(pool->queues);

	if (unlikely(queue->head == queue->tail))
		return get_shared(bench, pool, queue);
	return queue->objects[queue->tail++ % QUEUE_OBJECTS];
}

static inline void put_pool(struct bench *bench, void *object)
{
	struct pool *pool = bench->pool;
	struct queue *queue = this_cpu_ptr(pool->queues);

	if (unlikely(queue->head - queue->tail == QUEUE_OBJECTS))
		put_shared(bench, pool, queue);
	queue->objects[queue->head++ % QUEUE_OBJECTS] = object;
}

/* The same for a caller that may be anywhere but in an interrupt: bottom halves are disabled in each operation. */
static inline void *get_pool_bh(struct bench *bench)
{
	void *object;

	local_bh_disable();
	object = get_pool(bench);
	local_bh_enable();
	return object;
}

static inline void put_pool_bh(struct bench *bench, void *object)
{
	local_bh_disable();
	put_pool(bench, object);
	local_bh_enable();
}

static int make_pool(struct bench *bench)
{
	struct pool *pool;
	int error = make_cache(bench);

	if (error)
		return error;
	pool = kzalloc(sizeof(*pool), GFP_KERNEL);
	if (!pool)
		goto no_pool;
	pool->queues = alloc_percpu(struct queue);
	if (!pool->queues)
		goto no_queues;
	if (ptr_ring_init(&pool->shared, SHARED_OBJECTS, GFP_KERNEL))
		goto no_ring;
	bench->pool = pool;
	return 0;
no_ring:
	free_percpu(pool->queues);
no_queues:
	kfree(pool);
no_pool:
	end_cache(bench);
	return -ENOMEM;
}

static void end_pool(struct bench *bench)
{
	struct pool *pool = bench->pool;
	void *object;
	int cpu;

	for_each_possible_cpu(cpu) {
		struct queue *queue = per_cpu_ptr(pool->queues, cpu);

		while (queue->head != queue->tail)
			kmem_cache_free(bench->cache, queue->objects[queue->tail++ % QUEUE_OBJECTS]);
	}
	while ((object = __ptr_ring_consume(&pool->shared)))
		kmem_cache_free(bench->cache, object);
	ptr_ring_cleanup(&pool->shared, NULL);
	free_percpu(pool->queues);
	kfree(pool);
	bench->pool = NULL;
	end_cache(bench);
}

/* One object at a time: the allocator's fast path. */
#define REUSE(kind)								\
	static int kind##_reuse(struct bench *bench)				\
	{									\
		u32 loops = bench->loops, i;					\
		u64 start = now();						\
										\
		for (i = 0; i < loops; i++) {					\
			void *object = get_##kind(bench);			\
										\
			if (unlikely(!object))					\
				return -ENOMEM;					\
			barrier();						\
			put_##kind(bench, object);				\
		}								\
		add_sample(bench, 0, loops, now() - start);			\
		add_sample(bench, 1, loops, empty_loop(loops));			\
		return 0;							\
	}

/* What the loops over the objects cost when nothing is allocated. */
static u64 empty_pattern(struct bench *bench)
{
	u64 start = now();
	u32 i;

	for (i = 0; i < bench->count; i++)
		WRITE_ONCE(bench->objects[i], bench);
	for (i = 0; i < bench->count; i++)
		(void)READ_ONCE(bench->objects[i]);
	return now() - start;
}

/* All objects are allocated before the first is freed. */
#define PATTERN(kind)								\
	static int kind##_pattern(struct bench *bench)				\
	{									\
		u64 start = now(), middle, end;					\
		u32 got, i;							\
										\
		for (got = 0; got < bench->count; got++) {			\
			void *object = get_##kind(bench);			\
										\
			if (unlikely(!object))					\
				break;						\
			bench->objects[got] = object;				\
		}								\
		middle = now();							\
		for (i = 0; i < got; i++)					\
			put_##kind(bench, bench->objects[i]);			\
		end = now();							\
		if (got < bench->count)						\
			return -ENOMEM;						\
		add_sample(bench, 0, got, middle - start);			\
		add_sample(bench, 1, got, end - middle);			\
		add_sample(bench, 2, got, empty_pattern(bench));		\
		return 0;							\
	}

REUSE(kmalloc)
REUSE(cache)
REUSE(page_of)
REUSE(pool)
REUSE(pool_bh)
PATTERN(kmalloc)
PATTERN(cache)
PATTERN(page_of)
PATTERN(pool)
PATTERN(pool_bh)

/* Objects in bulk, all freed before the next call; an operation is one object. */
static int cache_bulk(struct bench *bench)
{
	u32 calls = max(bench->loops / bench->bulk, 1u), i;
	u64 alloc_ns = 0, free_ns = 0;

	for (i = 0; i < calls; i++) {
		u64 start = now(), middle;
		int got = kmem_cache_alloc_bulk(bench->cache, bench->gfp, bench->bulk, bench->objects);

		if (got != bench->bulk) {
			if (got > 0)
				kmem_cache_free_bulk(bench->cache, got, bench->objects);
			return -ENOMEM;
		}
		middle = now();
		kmem_cache_free_bulk(bench->cache, bench->bulk, bench->objects);
		free_ns += now() - middle;
		alloc_ns += middle - start;
	}
	add_sample(bench, 0, (u64)calls * bench->bulk, alloc_ns);
	add_sample(bench, 1, (u64)calls * bench->bulk, free_ns);
	/* The two readings of the clock in each call. */
	{
		u64 start = now(), sum = 0;

		for (i = 0; i < calls; i++)
			sum += now() - now();
		OPTIMIZER_HIDE_VAR(sum);
		add_sample(bench, 2, (u64)calls * bench->bulk, now() - start);
	}
	return 0;
}

#define ONE(test_name, kind, make, end, sized, where, text)				\
	{ .name = test_name "-reuse", .about = text ": allocated and freed at once",		\
	  .parts = { "op", "noop" }, .contexts = where, .uses_size = sized,			\
	  .prepare = make, .finish = end, .batch = kind##_reuse },				\
	{ .name = test_name "-pattern", .about = text ": count are allocated, then all freed",	\
	  .parts = { "alloc", "free", "noop" }, .contexts = where, .uses_size = sized,	\
	  .prepare = make, .finish = end, .batch = kind##_pattern }

const struct test alloc_tests[] = {
	ONE("kmalloc", kmalloc, NULL, NULL, true, ANYWHERE, "kmalloc of size bytes"),
	ONE("kmem-cache", cache, make_cache, end_cache, true, ANYWHERE,
	    "an object of a cache of its own"),
	ONE("pool", pool, make_pool, end_pool, true, IN(PREEMPT_OFF) | IN(BH_OFF) | IN(SOFTIRQ) | IN(IRQ_OFF),
	    "an object of a pool of two levels before a cache"),
	ONE("pool-bh", pool_bh, make_pool, end_pool, true, IN(PROCESS),
	    "the same, with bottom halves disabled in each operation"),
	ONE("page", page_of, NULL, NULL, false, ANYWHERE, "2^order pages"),
	{ .name = "kmem-cache-bulk", .about = "bulk objects of a cache in one call",
	  .parts = { "alloc", "free", "noop" }, .contexts = IN(PROCESS) | IN(PREEMPT_OFF) | IN(BH_OFF) | IN(SOFTIRQ),
	  .uses_size = true, .prepare = make_cache, .finish = end_cache, .batch = cache_bulk },
};
const unsigned int alloc_test_count = ARRAY_SIZE(alloc_tests);

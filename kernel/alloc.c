// SPDX-License-Identifier: MIT OR GPL-2.0
/* Objects of a cache, kmalloc, pages, and a pool of objects: one at a time, many before the first is freed, and in bulk. */

#include <linux/mm.h>
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

/* A ring of free objects before a cache: what is not in the ring comes from the cache, what has no room goes back to it. */
static inline void *get_pool(struct bench *bench)
{
	void *object = __ptr_ring_consume(bench->pool);

	return object ? object : kmem_cache_alloc(bench->cache, bench->gfp);
}

static inline void put_pool(struct bench *bench, void *object)
{
	if (__ptr_ring_produce(bench->pool, object))
		kmem_cache_free(bench->cache, object);
}

static int make_pool(struct bench *bench)
{
	struct ptr_ring *ring;
	int error = make_cache(bench);

	if (error)
		return error;
	ring = kzalloc(sizeof(*ring), GFP_KERNEL);
	error = ring ? ptr_ring_init(ring, 512, GFP_KERNEL) : -ENOMEM;
	if (error) {
		kfree(ring);
		end_cache(bench);
		return error;
	}
	bench->pool = ring;
	return 0;
}

static void end_pool(struct bench *bench)
{
	void *object;

	while ((object = __ptr_ring_consume(bench->pool)))
		kmem_cache_free(bench->cache, object);
	ptr_ring_cleanup(bench->pool, NULL);
	kfree(bench->pool);
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
PATTERN(kmalloc)
PATTERN(cache)
PATTERN(page_of)
PATTERN(pool)

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

#define ONE(test_name, kind, make, end, sized, text)					\
	{ .name = test_name "-reuse", .about = text ": allocated and freed at once",		\
	  .parts = { "op", "noop" }, .contexts = ANYWHERE, .uses_size = sized,			\
	  .prepare = make, .finish = end, .batch = kind##_reuse },				\
	{ .name = test_name "-pattern", .about = text ": count are allocated, then all freed",	\
	  .parts = { "alloc", "free", "noop" }, .contexts = ANYWHERE, .uses_size = sized,	\
	  .prepare = make, .finish = end, .batch = kind##_pattern }

const struct test alloc_tests[] = {
	ONE("kmalloc", kmalloc, NULL, NULL, true, "kmalloc of size bytes"),
	ONE("kmem-cache", cache, make_cache, end_cache, true, "an object of a cache of its own"),
	ONE("pool", pool, make_pool, end_pool, true, "an object of a ring of free objects before a cache"),
	ONE("page", page_of, NULL, NULL, false, "2^order pages"),
	{ .name = "kmem-cache-bulk", .about = "bulk objects of a cache in one call",
	  .parts = { "alloc", "free", "noop" }, .contexts = IN(PROCESS) | IN(PREEMPT_OFF) | IN(BH_OFF) | IN(SOFTIRQ),
	  .uses_size = true, .prepare = make_cache, .finish = end_cache, .batch = cache_bulk },
};
const unsigned int alloc_test_count = ARRAY_SIZE(alloc_tests);

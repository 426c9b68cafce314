/* When destructors of comparators and filter policies run. The state of each is freed as soon as
 * its destructor has run, and a call with it after that ends the process.
 *
 *     lifetimes DIR
 *
 * DIR is an empty directory. Prints `done`.
 */
#include "leveldb/c.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition) check((condition), #condition, __LINE__)

static void check(int is_true, const char *what, int line)
{
    if (!is_true) {
        fprintf(stderr, "lifetimes.c:%d: %s\n", line, what);
        exit(1);
    }
}

static leveldb_options_t *options;
static leveldb_readoptions_t *reads;
static leveldb_writeoptions_t *writes;
static char *error;
static char name[4096];

/* A state: whether its destructor has run, and on which thread. It stays, so that a late call is
 * seen and is no accident of memory. */
struct state {
    int ended;
    pthread_t thread;
};

static void used(void *state)
{
    if (((struct state *) state)->ended) {
        fprintf(stderr, "lifetimes.c: called after the destructor\n");
        abort();
    }
}

static void end(void *state)
{
    used(state);
    ((struct state *) state)->ended = 1;
    ((struct state *) state)->thread = pthread_self();
}

static int compare(void *state, const char *a, size_t alen, const char *b, size_t blen)
{
    used(state);
    size_t len = alen < blen ? alen : blen;
    int order = memcmp(b, a, len);
    return order != 0 ? order : alen < blen ? -1 : alen > blen;
}

static const char *order_name(void *state)
{
    used(state);
    return "test.descending";
}

static char *create_filter(void *state, const char *const *keys, const size_t *lens, int count,
                           size_t *len)
{
    (void) keys, (void) lens, (void) count;
    used(state);
    *len = 1;
    return calloc(1, 1);
}

static unsigned char key_may_match(void *state, const char *key, size_t len, const char *filter,
                                   size_t filter_len)
{
    (void) key, (void) len, (void) filter, (void) filter_len;
    used(state);
    return 1;
}

static const char *filter_name(void *state)
{
    used(state);
    return "test.all";
}

static struct state order_state, filter_state;
static leveldb_comparator_t *order;
static leveldb_filterpolicy_t *policy;

static void make(void)
{
    memset(&order_state, 0, sizeof order_state);
    memset(&filter_state, 0, sizeof filter_state);
    order = leveldb_comparator_create(&order_state, end, compare, order_name);
    policy = leveldb_filterpolicy_create(&filter_state, end, create_filter, key_may_match,
                                         filter_name);
    leveldb_options_set_comparator(options, order);
    leveldb_options_set_filter_policy(options, policy);
}

static void ended_at(int has_ended, int line)
{
    check(order_state.ended == has_ended, "the comparator", line);
    check(filter_state.ended == has_ended, "the filter policy", line);
    if (has_ended) {
        check(pthread_equal(order_state.thread, pthread_self()), "its thread", line);
        check(pthread_equal(filter_state.thread, pthread_self()), "its thread", line);
    }
}

#define ENDED(has_ended) ended_at((has_ended), __LINE__)

static void give_up(void)
{
    leveldb_comparator_destroy(order);
    leveldb_filterpolicy_destroy(policy);
}

static leveldb_t *opened(void)
{
    leveldb_t *db = leveldb_open(options, name, &error);
    CHECK(error == NULL);
    return db;
}

/* Something in memory and in tables. */
static void fill(leveldb_t *db)
{
    char key[32];
    for (int i = 0; i < 200; i++) {
        snprintf(key, sizeof key, "key%d", i);
        leveldb_put(db, writes, key, strlen(key), "value", 5, &error);
        CHECK(error == NULL);
        if (i % 50 == 49)
            leveldb_compact_range(db, NULL, 0, NULL, 0);
    }
    leveldb_put(db, writes, "last", 4, "value", 5, &error);
    CHECK(error == NULL);
}

static void *read_all(void *db)
{
    char key[32], *failure = NULL;
    size_t len;
    for (int i = 0; i < 200; i++) {
        snprintf(key, sizeof key, "key%d", i);
        char *value = leveldb_get(db, reads, key, strlen(key), &len, &failure);
        CHECK(failure == NULL && value != NULL && len == 5);
        leveldb_free(value);
    }
    return NULL;
}

/* LevelDB's order of calls. Options know the callbacks still, and other threads have read. */
static void destroyed_after_the_close(void)
{
    make();
    leveldb_t *db = opened();
    fill(db);
    pthread_t readers[4];
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&readers[i], NULL, read_all, db) == 0);
    for (int i = 0; i < 4; i++)
        CHECK(pthread_join(readers[i], NULL) == 0);
    leveldb_close(db);
    ENDED(0);
    db = opened();
    leveldb_close(db);
    ENDED(0);
    give_up();
    ENDED(1);
}

/* Options that have what is destroyed are refused. */
static void options_of_the_dead(void)
{
    for (int i = 0; i < 2; i++) {
        CHECK(leveldb_open(options, name, &error) == NULL);
        CHECK(error != NULL && strstr(error, "was destroyed") != NULL);
        leveldb_free(error);
        error = NULL;
        leveldb_repair_db(options, name, &error);
        CHECK(error != NULL && strstr(error, "was destroyed") != NULL);
        leveldb_free(error);
        error = NULL;
        leveldb_options_set_filter_policy(options, NULL);
    }
    leveldb_options_set_comparator(options, NULL);
}

/* Destroyed while databases are open: at the close of the last. */
static void destroyed_before_the_close(void)
{
    make();
    leveldb_t *db = opened();
    char other_name[4200];
    snprintf(other_name, sizeof other_name, "%s-other", name);
    leveldb_t *other = leveldb_open(options, other_name, &error);
    CHECK(error == NULL);
    give_up();
    read_all(db);
    ENDED(0);
    leveldb_close(db);
    ENDED(0);
    fill(other);
    read_all(other);
    ENDED(0);
    leveldb_close(other);
    ENDED(1);
}

/* An iterator that outlives both fails, and calls nothing. */
static void iterators(void)
{
    make();
    leveldb_t *db = opened();
    leveldb_iterator_t *iter = leveldb_create_iterator(db, reads);
    const leveldb_snapshot_t *snapshot = leveldb_create_snapshot(db);
    leveldb_iter_seek_to_first(iter);
    CHECK(leveldb_iter_valid(iter));
    leveldb_close(db);
    leveldb_iter_seek(iter, "key7", 4);
    CHECK(leveldb_iter_valid(iter));
    ENDED(0);
    give_up();
    ENDED(1);
    leveldb_iter_seek(iter, "key7", 4);
    CHECK(!leveldb_iter_valid(iter));
    leveldb_iter_next(iter);
    leveldb_iter_get_error(iter, &error);
    CHECK(error != NULL && strstr(error, "test.descending was destroyed") != NULL);
    leveldb_free(error);
    error = NULL;
    leveldb_iter_destroy(iter);
    leveldb_release_snapshot(NULL, snapshot);
}

/* An opening or a repair that fails leaves no use behind. */
static void failures(void)
{
    make();
    leveldb_t *db = opened();
    CHECK(leveldb_open(options, name, &error) == NULL && error != NULL);
    leveldb_repair_db(options, name, &error);
    CHECK(error != NULL);
    leveldb_free(error);
    error = NULL;
    leveldb_close(db);
    leveldb_repair_db(options, name, &error);
    CHECK(error == NULL);
    ENDED(0);
    give_up();
    ENDED(1);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    snprintf(name, sizeof name, "%s/db", argv[1]);
    options = leveldb_options_create();
    reads = leveldb_readoptions_create();
    writes = leveldb_writeoptions_create();
    leveldb_options_set_create_if_missing(options, 1);
    destroyed_after_the_close();
    options_of_the_dead();
    destroyed_before_the_close();
    iterators();
    failures();
    leveldb_options_destroy(options);
    leveldb_readoptions_destroy(reads);
    leveldb_writeoptions_destroy(writes);
    puts("done");
    return 0;
}

/* Threads that share a store, a key space and a snapshot: counters, transactions that begin again
 * after a conflict, iterators over a moment, and a close beside writers and who waits for a key;
 * and two closes while a listener is called. */
#include "common.h"
#include <pthread.h>
#include <sched.h>

enum { THREADS = 4, STEPS = 200 };

static keyrack_store *store;
static keyrack_space *space;
static keyrack_snapshot *snapshot;

/* Moves one from an account to another; the sum stays. */
static void transfer(unsigned seed) {
    keyrack_error *error = NULL;
    char names[2][2] = {{(char)('a' + seed % 5), 0}, {(char)('a' + (seed / 5 + 1) % 5), 0}};
    if (names[0][0] == names[1][0])
        return;
    for (;;) {
        keyrack_transaction *transaction;
        OK(keyrack_transaction_begin(store, 0, &transaction, &error));
        for (int i = 0; i < 2; i++) {
            char *value, text[16];
            size_t len;
            OK(keyrack_transaction_get(transaction, space, names[i], 1, &value, &len, &error));
            CHECK(len < sizeof text);
            memcpy(text, value, len);
            text[len] = 0;
            keyrack_free(value);
            int count = snprintf(text, sizeof text, "%d", atoi(text) + (i == 0 ? -1 : 1));
            OK(keyrack_transaction_put(transaction, space, names[i], 1, text, (size_t)count,
                                       &error));
        }
        keyrack_code code = keyrack_transaction_commit(transaction, &error);
        keyrack_transaction_free(transaction);
        if (code == KEYRACK_OK)
            break;
        CHECK(code == KEYRACK_CONFLICT);
    }
    keyrack_error_free(error);
}

/* The accounts that an iterator shows, and their sum. */
static int sum(keyrack_snapshot *moment) {
    keyrack_error *error = NULL;
    keyrack_iterator *iterator;
    int sum = 0, accounts = 0;
    OK(keyrack_iterator_new(space, moment, "a", 1, "f", 1, &iterator, &error));
    OK(keyrack_iterator_first(iterator, &error));
    while (keyrack_iterator_valid(iterator)) {
        char text[16];
        size_t len;
        const char *value = keyrack_iterator_value(iterator, &len);
        CHECK(len < sizeof text);
        memcpy(text, value, len);
        text[len] = 0;
        sum += atoi(text);
        accounts++;
        OK(keyrack_iterator_next(iterator, &error));
    }
    keyrack_iterator_free(iterator);
    CHECK(accounts == 5);
    return sum;
}

static void *work(void *number) {
    keyrack_error *error = NULL;
    unsigned seed = (unsigned)(size_t)number + 1;
    for (int i = 0; i < STEPS; i++) {
        seed = seed * 1103515245u + 12345u;
        OK(keyrack_fetch_and_add(space, T("visits"), 1, 0, NULL, &error));
        transfer(seed >> 8);
        if (i % 20 == 0)
            CHECK(sum(NULL) == 500 && sum(snapshot) == 500);
    }
    return NULL;
}

/* Writes until somebody else closes the store. */
static void *write_on(void *number) {
    keyrack_error *error = NULL;
    (void)number;
    keyrack_code code;
    do
        code = keyrack_put(space, T("last"), T("1"), 0, &error);
    while (code == KEYRACK_OK);
    CHECK(code == KEYRACK_CLOSED);
    keyrack_error_free(error);
    return NULL;
}

/* Waits for a key that another transaction has and keeps, until somebody else closes the store. */
static void *wait_on(void *transaction) {
    keyrack_error *error = NULL;
    char *value;
    size_t len;
    keyrack_code code =
        keyrack_transaction_get_for_update(transaction, space, "a", 1, &value, &len, &error);
    CHECK(code == KEYRACK_CLOSED && value == NULL);
    keyrack_error_free(error);
    return NULL;
}

static void run(void *(*work)(void *), int closes) {
    pthread_t threads[THREADS];
    keyrack_error *error = NULL;
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
    if (closes)
        OK(keyrack_close(store, &error));
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int closing, closed;

/* Takes longer than it takes to begin two closes. */
static void hear(void *context, const keyrack_event *event) {
    (void)context;
    (void)event;
    pthread_mutex_lock(&mutex);
    while (closing < 2)
        pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
    for (int i = 0; i < 1000; i++)
        sched_yield();
    pthread_mutex_lock(&mutex);
    CHECK(!closed);
    pthread_mutex_unlock(&mutex);
}

static void *close_it(void *told) {
    keyrack_error *error = NULL;
    pthread_mutex_lock(&mutex);
    closing++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
    OK(keyrack_close(told, &error));
    pthread_mutex_lock(&mutex);
    closed = 1;
    pthread_mutex_unlock(&mutex);
    return NULL;
}

/* The second close returned while the listener was still called. */
static void close_twice_beside_a_listener(const char *dir) {
    keyrack_error *error = NULL;
    keyrack_options *options = keyrack_options_new();
    keyrack_store *told;
    keyrack_space *keys;
    pthread_t closers[2];
    OK(keyrack_options_set_listener(options, hear, NULL, &error));
    OK(keyrack_open(dir, options, &told, &error));
    keyrack_options_free(options);
    OK(keyrack_space_open(told, "keys", &keys, &error));
    OK(keyrack_put(keys, T("a"), T("1"), 0, &error));
    OK(keyrack_flush(told, &error));
    keyrack_space_free(keys);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&closers[i], NULL, close_it, told) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(closers[i], NULL) == 0);
    keyrack_store_free(told);
}

int main(int count, char **arguments) {
    CHECK(count == 2);
    keyrack_error *error = NULL;
    OK(keyrack_open(in(arguments[1], "db"), NULL, &store, &error));
    OK(keyrack_space_open(store, "accounts", &space, &error));
    for (char name = 'a'; name <= 'e'; name++)
        OK(keyrack_put(space, &name, 1, T("100"), 0, &error));
    OK(keyrack_snapshot_new(store, &snapshot, &error));
    run(work, 0);
    int64_t before;
    OK(keyrack_fetch_and_add(space, T("visits"), 0, 0, &before, &error));
    CHECK(before == THREADS * STEPS && sum(NULL) == 500);
    keyrack_transaction *owner, *waiter;
    char *value;
    size_t len;
    OK(keyrack_transaction_begin(store, 0, &owner, &error));
    OK(keyrack_transaction_begin(store, 0, &waiter, &error));
    OK(keyrack_transaction_get_for_update(owner, space, "a", 1, &value, &len, &error));
    keyrack_free(value);
    pthread_t waits;
    CHECK(pthread_create(&waits, NULL, wait_on, waiter) == 0);
    run(write_on, 1);
    CHECK(pthread_join(waits, NULL) == 0);
    keyrack_transaction_free(waiter);
    keyrack_transaction_free(owner);
    keyrack_snapshot_free(snapshot);
    keyrack_space_free(space);
    keyrack_store_free(store);
    close_twice_beside_a_listener(in(arguments[1], "told"));
    puts("done");
    return 0;
}

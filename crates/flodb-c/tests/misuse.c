/* What must not be done: null pointers everywhere, absurd lengths, handles of another store, of a
 * transaction that has ended, and of a store that is closed or freed. */
#include "common.h"

static keyrack_error *error;

#define USAGE(call) FAILS(KEYRACK_USAGE, call)
#define CLOSED(call) FAILS(KEYRACK_CLOSED, call)

/* Every call without anything. */
static void pass_nothing(void) {
    USAGE(keyrack_options_set(NULL, NULL, NULL, &error));
    USAGE(keyrack_options_set_number(NULL, NULL, 0, &error));
    keyrack_options_free(NULL);
    USAGE(keyrack_open(NULL, NULL, NULL, &error));
    USAGE(keyrack_open_read_only(NULL, NULL, NULL, &error));
    USAGE(keyrack_close(NULL, &error));
    keyrack_store_free(NULL);
    USAGE(keyrack_destroy(NULL, &error));
    USAGE(keyrack_flush(NULL, &error));
    USAGE(keyrack_compact(NULL, &error));
    USAGE(keyrack_checkpoint(NULL, NULL, &error));
    USAGE(keyrack_property(NULL, NULL, NULL, &error));
    USAGE(keyrack_statistics(NULL, NULL, &error));
    USAGE(keyrack_space_open(NULL, NULL, NULL, &error));
    USAGE(keyrack_space_find(NULL, NULL, NULL, &error));
    USAGE(keyrack_space_drop(NULL, NULL, NULL, &error));
    USAGE(keyrack_space_list(NULL, NULL, &error));
    CHECK(keyrack_space_name(NULL) == NULL);
    keyrack_space_free(NULL);
    USAGE(keyrack_put(NULL, NULL, 0, NULL, 0, 0, &error));
    USAGE(keyrack_delete(NULL, NULL, 0, 0, &error));
    USAGE(keyrack_delete_range(NULL, NULL, 0, NULL, 0, 0, &error));
    USAGE(keyrack_get(NULL, NULL, NULL, 0, NULL, NULL, &error));
    USAGE(keyrack_contains(NULL, NULL, NULL, 0, NULL, &error));
    USAGE(keyrack_compare_and_swap(NULL, NULL, 0, NULL, 0, NULL, 0, 0, NULL, &error));
    USAGE(keyrack_fetch_and_add(NULL, NULL, 0, 1, 0, NULL, &error));
    USAGE(keyrack_batch_new(NULL, NULL, &error));
    USAGE(keyrack_batch_put(NULL, NULL, NULL, 0, NULL, 0, &error));
    USAGE(keyrack_batch_delete(NULL, NULL, NULL, 0, &error));
    USAGE(keyrack_batch_delete_range(NULL, NULL, NULL, 0, NULL, 0, &error));
    USAGE(keyrack_batch_write(NULL, 0, &error));
    keyrack_batch_clear(NULL);
    CHECK(keyrack_batch_count(NULL) == 0);
    keyrack_batch_free(NULL);
    USAGE(keyrack_snapshot_new(NULL, NULL, &error));
    keyrack_snapshot_free(NULL);
    USAGE(keyrack_iterator_new(NULL, NULL, NULL, 0, NULL, 0, NULL, &error));
    USAGE(keyrack_iterator_new_prefix(NULL, NULL, NULL, 0, NULL, &error));
    USAGE(keyrack_iterator_first(NULL, &error));
    USAGE(keyrack_iterator_last(NULL, &error));
    USAGE(keyrack_iterator_seek(NULL, NULL, 0, &error));
    USAGE(keyrack_iterator_seek_back(NULL, NULL, 0, &error));
    USAGE(keyrack_iterator_next(NULL, &error));
    USAGE(keyrack_iterator_prev(NULL, &error));
    CHECK(!keyrack_iterator_valid(NULL));
    CHECK(keyrack_iterator_key(NULL, NULL) == NULL && keyrack_iterator_value(NULL, NULL) == NULL);
    keyrack_iterator_free(NULL);
    USAGE(keyrack_transaction_begin(NULL, 0, NULL, &error));
    USAGE(keyrack_transaction_get(NULL, NULL, NULL, 0, NULL, NULL, &error));
    USAGE(keyrack_transaction_get_for_update(NULL, NULL, NULL, 0, NULL, NULL, &error));
    USAGE(keyrack_transaction_put(NULL, NULL, NULL, 0, NULL, 0, &error));
    USAGE(keyrack_transaction_delete(NULL, NULL, NULL, 0, &error));
    USAGE(keyrack_transaction_delete_range(NULL, NULL, NULL, 0, NULL, 0, &error));
    USAGE(keyrack_transaction_iterator(NULL, NULL, NULL, 0, NULL, 0, NULL, &error));
    USAGE(keyrack_transaction_iterator_prefix(NULL, NULL, NULL, 0, NULL, &error));
    USAGE(keyrack_transaction_save_point(NULL, &error));
    USAGE(keyrack_transaction_roll_back_to_save_point(NULL, &error));
    USAGE(keyrack_transaction_release_save_point(NULL, &error));
    USAGE(keyrack_transaction_commit(NULL, &error));
    USAGE(keyrack_transaction_roll_back(NULL, &error));
    keyrack_transaction_free(NULL);
    USAGE(keyrack_backup(NULL, NULL, NULL, &error));
    USAGE(keyrack_backup_list(NULL, NULL, &error));
    USAGE(keyrack_backup_verify(NULL, NULL, &error));
    USAGE(keyrack_backup_restore(NULL, NULL, NULL, &error));
    USAGE(keyrack_backup_keep_newest(NULL, 1, &error));
    CHECK(keyrack_list_count(NULL) == 0 && keyrack_list_text(NULL, 0) == NULL);
    CHECK(keyrack_list_number(NULL, 0) == 0);
    keyrack_list_free(NULL);
    CHECK(keyrack_error_code(NULL) == KEYRACK_OK && keyrack_error_message(NULL)[0] == 0);
    CHECK(keyrack_error_key(NULL, NULL) == NULL && keyrack_error_space(NULL) == NULL);
    keyrack_error_free(NULL);
    keyrack_free(NULL);
    /* A caller who does not want to know why. */
    CHECK(keyrack_put(NULL, NULL, 0, NULL, 0, 0, NULL) == KEYRACK_USAGE);
}

/* What a handle gets beside it. */
static void pass_wrong(keyrack_store *store, keyrack_space *space) {
    char *value;
    int found;
    keyrack_batch *batch;
    keyrack_iterator *iterator;
    keyrack_transaction *transaction;
    USAGE(keyrack_put(space, NULL, 1, T("1"), 0, &error));
    USAGE(keyrack_put(space, "a", (size_t)-1, T("1"), 0, &error));
    USAGE(keyrack_put(space, T("a"), NULL, 1, 0, &error));
    USAGE(keyrack_put(space, T("a"), T("1"), 4, &error));
    USAGE(keyrack_put(space, T("a"), T("1"), KEYRACK_SNAPSHOT_ISOLATION, &error));
    USAGE(keyrack_get(space, NULL, T("a"), NULL, NULL, &error));
    USAGE(keyrack_get(space, NULL, NULL, 9, &value, NULL, &error));
    CHECK(value == NULL);
    USAGE(keyrack_contains(space, NULL, T("a"), NULL, &error));
    USAGE(keyrack_compare_and_swap(space, T("a"), NULL, 1, T("1"), 0, &found, &error));
    CHECK(has(space, "a", NULL));
    USAGE(keyrack_space_open(store, "\xff\xfe", &space, &error));
    CHECK(space == NULL);
    USAGE(keyrack_space_open(store, "", &space, &error));
    USAGE(keyrack_transaction_begin(store, 8, &transaction, &error));
    CHECK(transaction == NULL);
    OK(keyrack_space_find(store, "people", &space, &error));
    OK(keyrack_batch_new(store, &batch, &error));
    USAGE(keyrack_batch_put(batch, space, NULL, 1, NULL, 0, &error));
    USAGE(keyrack_batch_put(batch, NULL, T("a"), NULL, 0, &error));
    USAGE(keyrack_batch_write(batch, 16, &error));
    CHECK(keyrack_batch_count(batch) == 0);
    keyrack_batch_free(batch);
    USAGE(keyrack_iterator_new(space, NULL, NULL, 1, NULL, 0, &iterator, &error));
    CHECK(iterator == NULL);
    OK(keyrack_iterator_new(space, NULL, NULL, 0, NULL, 0, &iterator, &error));
    USAGE(keyrack_iterator_seek(iterator, NULL, 1, &error));
    OK(keyrack_iterator_next(iterator, &error));
    OK(keyrack_iterator_prev(iterator, &error));
    CHECK(!keyrack_iterator_valid(iterator));
    keyrack_iterator_free(iterator);
    keyrack_space_free(space);
}

/* Handles of one store in calls on another. */
static void mix_stores(keyrack_store *store, keyrack_space *space, keyrack_store *other) {
    keyrack_batch *batch;
    keyrack_snapshot *snapshot;
    keyrack_transaction *transaction;
    char *value;
    OK(keyrack_batch_new(other, &batch, &error));
    USAGE(keyrack_batch_put(batch, space, T("a"), T("1"), &error));
    keyrack_batch_free(batch);
    OK(keyrack_snapshot_new(other, &snapshot, &error));
    USAGE(keyrack_get(space, snapshot, T("a"), &value, NULL, &error));
    keyrack_snapshot_free(snapshot);
    OK(keyrack_transaction_begin(other, 0, &transaction, &error));
    USAGE(keyrack_transaction_put(transaction, space, T("a"), T("1"), &error));
    OK(keyrack_transaction_roll_back(transaction, &error));
    USAGE(keyrack_transaction_save_point(transaction, &error));
    USAGE(keyrack_transaction_roll_back(transaction, &error));
    keyrack_transaction_free(transaction);
    (void)store;
}

/* A transaction that is freed before its iterator, whose row is locked until the iterator goes. */
static void free_a_transaction_first(keyrack_store *store, keyrack_space *space) {
    keyrack_transaction *transaction;
    keyrack_iterator *iterator;
    char *value;
    OK(keyrack_transaction_begin(store, 0, &transaction, &error));
    OK(keyrack_transaction_put(transaction, space, T("own"), T("1"), &error));
    OK(keyrack_transaction_get_for_update(transaction, space, T("row"), &value, NULL, &error));
    OK(keyrack_transaction_iterator(transaction, space, NULL, 0, NULL, 0, &iterator, &error));
    USAGE(keyrack_transaction_roll_back(transaction, &error));
    keyrack_transaction_free(transaction);
    OK(keyrack_iterator_first(iterator, &error));
    CHECK(keyrack_iterator_valid(iterator));
    keyrack_iterator_free(iterator);
    CHECK(has(space, "own", NULL));
    OK(keyrack_transaction_begin(store, 0, &transaction, &error));
    OK(keyrack_transaction_get_for_update(transaction, space, T("row"), &value, NULL, &error));
    keyrack_transaction_free(transaction);
}

/* Everything that lives when the store is closed. */
static void outlive_the_store(const char *dir) {
    keyrack_store *store;
    keyrack_space *space, *other;
    keyrack_batch *batch;
    keyrack_snapshot *snapshot;
    keyrack_iterator *iterator, *within;
    keyrack_transaction *transaction;
    keyrack_list *list;
    char *value;
    size_t len;
    OK(keyrack_open(dir, NULL, &store, &error));
    OK(keyrack_space_open(store, "people", &space, &error));
    OK(keyrack_put(space, T("a"), T("1"), 0, &error));
    OK(keyrack_put(space, T("b"), T("2"), 0, &error));
    OK(keyrack_batch_new(store, &batch, &error));
    OK(keyrack_batch_put(batch, space, T("c"), T("3"), &error));
    OK(keyrack_snapshot_new(store, &snapshot, &error));
    OK(keyrack_iterator_new(space, NULL, NULL, 0, NULL, 0, &iterator, &error));
    OK(keyrack_iterator_first(iterator, &error));
    OK(keyrack_transaction_begin(store, 0, &transaction, &error));
    OK(keyrack_transaction_iterator(transaction, space, NULL, 0, NULL, 0, &within, &error));
    OK(keyrack_close(store, &error));
    OK(keyrack_close(store, &error));

    CLOSED(keyrack_flush(store, &error));
    CLOSED(keyrack_space_open(store, "people", &other, &error));
    CLOSED(keyrack_statistics(store, &list, &error));
    CHECK(other == NULL && list == NULL);
    keyrack_store_free(store);
    CLOSED(keyrack_put(space, T("a"), T("1"), 0, &error));
    CLOSED(keyrack_get(space, snapshot, T("a"), &value, &len, &error));
    CLOSED(keyrack_batch_put(batch, space, T("c"), T("3"), &error));
    CLOSED(keyrack_batch_write(batch, 0, &error));
    CLOSED(keyrack_transaction_get(transaction, space, T("a"), &value, &len, &error));
    CLOSED(keyrack_transaction_commit(transaction, &error));
    CLOSED(keyrack_iterator_first(within, &error));
    /* The iterator keeps what it shows. */
    CHECK(is(keyrack_iterator_key(iterator, &len), 1, "a"));
    OK(keyrack_iterator_next(iterator, &error));
    CHECK(is(keyrack_iterator_value(iterator, &len), 1, "2"));
    keyrack_snapshot_free(snapshot);
    keyrack_transaction_free(transaction);
    keyrack_iterator_free(within);
    keyrack_batch_free(batch);
    keyrack_space_free(space);
    OK(keyrack_iterator_next(iterator, &error));
    CHECK(!keyrack_iterator_valid(iterator));
    OK(keyrack_iterator_last(iterator, &error));
    CHECK(is(keyrack_iterator_key(iterator, &len), 1, "b"));
    keyrack_iterator_free(iterator);
    OK(keyrack_open(dir, NULL, &store, &error));
    OK(keyrack_space_open(store, "people", &space, &error));
    CHECK(has(space, "c", NULL) && has(space, "b", "2"));
    keyrack_store_free(store);
    keyrack_space_free(space);
}

int main(int count, char **arguments) {
    CHECK(count == 2);
    const char *dir = arguments[1];
    pass_nothing();
    keyrack_store *store, *other;
    keyrack_space *space;
    OK(keyrack_open(in(dir, "one"), NULL, &store, &error));
    OK(keyrack_open(in(dir, "two"), NULL, &other, &error));
    OK(keyrack_space_open(store, "people", &space, &error));
    pass_wrong(store, space);
    mix_stores(store, space, other);
    free_a_transaction_first(store, space);
    keyrack_store_free(other);
    keyrack_store_free(store);
    keyrack_space_free(space);
    outlive_the_store(in(dir, "three"));
    keyrack_error_free(error);
    puts("done");
    return 0;
}

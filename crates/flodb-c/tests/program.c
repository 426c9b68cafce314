/* Uses every call, and checks what each does. */
#include "common.h"

static keyrack_error *error;

/* The keys that an iterator shows from its first or its last key on, one letter each. */
static const char *shown(keyrack_iterator *iterator, int is_upward) {
    static char keys[64];
    size_t count = 0, len;
    if (is_upward)
        OK(keyrack_iterator_first(iterator, &error));
    else
        OK(keyrack_iterator_last(iterator, &error));
    while (keyrack_iterator_valid(iterator)) {
        const char *key = keyrack_iterator_key(iterator, &len);
        CHECK(len >= 1 && count < sizeof keys - 1);
        keys[count++] = key[len - 1];
        if (is_upward)
            OK(keyrack_iterator_next(iterator, &error));
        else
            OK(keyrack_iterator_prev(iterator, &error));
    }
    keys[count] = 0;
    return keys;
}

static int stands_on(keyrack_iterator *iterator, const char *text, const char *value) {
    size_t len;
    const char *bytes = keyrack_iterator_key(iterator, &len);
    if (!is(bytes, len, text))
        return 0;
    bytes = keyrack_iterator_value(iterator, &len);
    return is(bytes, len, value);
}

static keyrack_store *open_store(const char *dir) {
    keyrack_options *options = keyrack_options_new();
    keyrack_store *store;
    OK(keyrack_options_set(options, "memory_budget", "32M", &error));
    OK(keyrack_options_set_number(options, "compaction_threads", 1, &error));
    FAILS(KEYRACK_USAGE, keyrack_options_set(options, "memory", "32M", &error));
    FAILS(KEYRACK_USAGE, keyrack_options_set(options, "memory_budget", "little", &error));
    OK(keyrack_open(dir, options, &store, &error));
    keyrack_options_free(options);
    return store;
}

static void use_keys(keyrack_store *store, keyrack_space *space) {
    char *value;
    size_t len;
    int found;
    int64_t before;
    OK(keyrack_put(space, T("a"), T("1"), 0, &error));
    OK(keyrack_put(space, T("b"), T("2"), KEYRACK_SYNC, &error));
    OK(keyrack_put(space, "z\0z", 3, NULL, 0, 0, &error));
    OK(keyrack_get(space, NULL, "z\0z", 3, &value, &len, &error));
    CHECK(value != NULL && len == 0);
    keyrack_free(value);
    CHECK(has(space, "a", "1") && has(space, "b", "2") && has(space, "z", NULL));
    OK(keyrack_contains(space, NULL, T("a"), &found, &error));
    CHECK(found);
    keyrack_snapshot *snapshot;
    OK(keyrack_snapshot_new(store, &snapshot, &error));
    OK(keyrack_delete(space, T("a"), 0, &error));
    OK(keyrack_contains(space, NULL, T("a"), &found, &error));
    CHECK(!found);
    OK(keyrack_contains(space, snapshot, T("a"), &found, &error));
    CHECK(found);
    OK(keyrack_get(space, snapshot, T("a"), &value, &len, &error));
    CHECK(is(value, len, "1"));
    keyrack_free(value);
    keyrack_iterator *iterator;
    OK(keyrack_iterator_new(space, snapshot, NULL, 0, NULL, 0, &iterator, &error));
    keyrack_snapshot_free(snapshot);
    CHECK(strcmp(shown(iterator, 1), "abz") == 0 && strcmp(shown(iterator, 0), "zba") == 0);
    keyrack_iterator_free(iterator);

    OK(keyrack_compare_and_swap(space, T("c"), NULL, 0, T("3"), 0, &found, &error));
    CHECK(found && has(space, "c", "3"));
    OK(keyrack_compare_and_swap(space, T("c"), T("4"), T("5"), 0, &found, &error));
    CHECK(!found && has(space, "c", "3"));
    OK(keyrack_compare_and_swap(space, T("c"), T("3"), NULL, 0, KEYRACK_SYNC, &found, &error));
    CHECK(found && has(space, "c", NULL));
    OK(keyrack_fetch_and_add(space, T("n"), 5, 0, &before, &error));
    CHECK(before == 0);
    OK(keyrack_fetch_and_add(space, T("n"), -2, 0, &before, &error));
    CHECK(before == 5);
    FAILS(KEYRACK_USAGE, keyrack_fetch_and_add(space, T("b"), 1, 0, &before, &error));
    OK(keyrack_delete_range(space, T("a"), T("zz"), KEYRACK_SYNC, &error));
    CHECK(has(space, "b", NULL) && has(space, "n", NULL));
}

static void use_iterators(keyrack_space *space) {
    keyrack_iterator *iterator;
    const char *keys[] = {"p/a", "p/b", "p/c", "q/d", "q/e"};
    for (size_t i = 0; i < 5; i++)
        OK(keyrack_put(space, T(keys[i]), T(keys[i] + 2), 0, &error));
    OK(keyrack_iterator_new(space, NULL, NULL, 0, NULL, 0, &iterator, &error));
    CHECK(!keyrack_iterator_valid(iterator) && keyrack_iterator_key(iterator, NULL) == NULL);
    CHECK(strcmp(shown(iterator, 1), "abcde") == 0 && strcmp(shown(iterator, 0), "edcba") == 0);
    OK(keyrack_iterator_seek(iterator, T("p/bb"), &error));
    CHECK(stands_on(iterator, "p/c", "c"));
    OK(keyrack_iterator_seek_back(iterator, T("p/bb"), &error));
    CHECK(stands_on(iterator, "p/b", "b"));
    OK(keyrack_put(space, T("p/bc"), T("new"), 0, &error));
    OK(keyrack_iterator_next(iterator, &error));
    CHECK(stands_on(iterator, "p/c", "c"));
    keyrack_iterator_free(iterator);
    OK(keyrack_delete(space, T("p/bc"), 0, &error));

    OK(keyrack_iterator_new(space, NULL, T("p/b"), T("q/e"), &iterator, &error));
    CHECK(strcmp(shown(iterator, 1), "bcd") == 0 && strcmp(shown(iterator, 0), "dcb") == 0);
    OK(keyrack_iterator_seek(iterator, T("a"), &error));
    CHECK(stands_on(iterator, "p/b", "b"));
    keyrack_iterator_free(iterator);
    OK(keyrack_iterator_new_prefix(space, NULL, T("q/"), &iterator, &error));
    CHECK(strcmp(shown(iterator, 1), "de") == 0 && strcmp(shown(iterator, 0), "ed") == 0);
    keyrack_iterator_free(iterator);
}

static void use_batches(keyrack_store *store, keyrack_space *space, keyrack_space *other) {
    keyrack_batch *batch;
    OK(keyrack_batch_new(store, &batch, &error));
    OK(keyrack_batch_put(batch, space, T("x"), T("1"), &error));
    OK(keyrack_batch_put(batch, other, T("x"), T("2"), &error));
    OK(keyrack_batch_delete(batch, space, T("p/a"), &error));
    OK(keyrack_batch_delete_range(batch, space, T("q"), T("r"), &error));
    CHECK(keyrack_batch_count(batch) == 4 && has(space, "x", NULL));
    OK(keyrack_batch_write(batch, KEYRACK_SYNC, &error));
    CHECK(has(space, "x", "1") && has(other, "x", "2"));
    CHECK(has(space, "p/a", NULL) && has(space, "q/d", NULL) && has(space, "p/b", "b"));
    keyrack_batch_clear(batch);
    CHECK(keyrack_batch_count(batch) == 0);
    OK(keyrack_batch_write(batch, 0, &error));
    keyrack_batch_free(batch);
}

/* A batch on one set of keys; the one over several is above. */
static void use_a_batch(keyrack_store *store, keyrack_space *space) {
    keyrack_batch *batch;
    OK(keyrack_batch_new(store, &batch, &error));
    OK(keyrack_batch_put(batch, space, T("x"), T("1"), &error));
    OK(keyrack_batch_delete(batch, space, T("p/a"), &error));
    OK(keyrack_batch_delete_range(batch, space, T("q"), T("r"), &error));
    OK(keyrack_batch_write(batch, 0, &error));
    CHECK(has(space, "x", "1") && has(space, "p/a", NULL) && has(space, "q/d", NULL));
    keyrack_batch_free(batch);
}

static void use_transactions(keyrack_store *store, keyrack_space *space) {
    keyrack_transaction *transaction;
    keyrack_iterator *iterator;
    char *value;
    size_t len;
    OK(keyrack_put(space, T("seats"), T("7"), 0, &error));
    OK(keyrack_transaction_begin(store, KEYRACK_SYNC, &transaction, &error));
    OK(keyrack_transaction_get(transaction, space, T("seats"), &value, &len, &error));
    CHECK(is(value, len, "7"));
    keyrack_free(value);
    OK(keyrack_transaction_put(transaction, space, T("seats"), T("6"), &error));
    OK(keyrack_transaction_save_point(transaction, &error));
    OK(keyrack_transaction_delete(transaction, space, T("seats"), &error));
    OK(keyrack_transaction_delete_range(transaction, space, T("p"), T("q"), &error));
    OK(keyrack_transaction_roll_back_to_save_point(transaction, &error));
    OK(keyrack_transaction_save_point(transaction, &error));
    OK(keyrack_transaction_put(transaction, space, T("guest"), T("ada"), &error));
    OK(keyrack_transaction_release_save_point(transaction, &error));
    FAILS(KEYRACK_USAGE, keyrack_transaction_release_save_point(transaction, &error));
    OK(keyrack_transaction_iterator(transaction, space, T("g"), T("t"), &iterator, &error));
    OK(keyrack_iterator_first(iterator, &error));
    CHECK(stands_on(iterator, "guest", "ada"));
    OK(keyrack_iterator_last(iterator, &error));
    CHECK(stands_on(iterator, "seats", "6"));
    FAILS(KEYRACK_USAGE, keyrack_transaction_commit(transaction, &error));
    keyrack_iterator_free(iterator);
    /* Beyond the bounds, so it is no conflict. */
    OK(keyrack_put(space, T("ticket"), T("1"), 0, &error));
    CHECK(has(space, "guest", NULL));
    OK(keyrack_transaction_commit(transaction, &error));
    CHECK(has(space, "guest", "ada") && has(space, "seats", "6"));
    FAILS(KEYRACK_USAGE, keyrack_transaction_commit(transaction, &error));
    keyrack_transaction_free(transaction);

    /* Somebody else changes what it has read. */
    OK(keyrack_transaction_begin(store, 0, &transaction, &error));
    OK(keyrack_transaction_iterator_prefix(transaction, space, T("seat"), &iterator, &error));
    CHECK(strcmp(shown(iterator, 1), "s") == 0);
    keyrack_iterator_free(iterator);
    OK(keyrack_transaction_put(transaction, space, T("guest"), T("bob"), &error));
    OK(keyrack_put(space, T("seats"), T("5"), 0, &error));
    FAILS(KEYRACK_CONFLICT, keyrack_transaction_commit(transaction, &error));
    const char *key = keyrack_error_key(error, &len);
    CHECK(is(key, len, "seats"));
    const char *name = keyrack_space_name(space);
    CHECK(name[0] ? strcmp(keyrack_error_space(error), name) == 0
                  : keyrack_error_space(error) == NULL);
    CHECK(has(space, "guest", "ada"));
    keyrack_transaction_free(transaction);

    /* What is only read is not checked by the cheaper isolation. */
    OK(keyrack_transaction_begin(store, KEYRACK_SNAPSHOT_ISOLATION, &transaction, &error));
    OK(keyrack_transaction_get(transaction, space, T("seats"), &value, &len, &error));
    keyrack_free(value);
    OK(keyrack_put(space, T("seats"), T("4"), 0, &error));
    OK(keyrack_transaction_put(transaction, space, T("guest"), T("bob"), &error));
    OK(keyrack_transaction_commit(transaction, &error));
    CHECK(has(space, "guest", "bob"));
    keyrack_transaction_free(transaction);

    /* A row that is locked is read anew. */
    OK(keyrack_transaction_begin(store, 0, &transaction, &error));
    OK(keyrack_put(space, T("seats"), T("3"), 0, &error));
    OK(keyrack_transaction_get_for_update(transaction, space, T("seats"), &value, &len, &error));
    CHECK(is(value, len, "3"));
    keyrack_free(value);
    OK(keyrack_transaction_put(transaction, space, T("seats"), T("2"), &error));
    OK(keyrack_transaction_roll_back(transaction, &error));
    keyrack_transaction_free(transaction);
    CHECK(has(space, "seats", "3"));
}

static void use_spaces(keyrack_store *store) {
    keyrack_space *space;
    keyrack_list *list;
    int dropped;
    OK(keyrack_space_find(store, "nobody", &space, &error));
    CHECK(space == NULL);
    OK(keyrack_space_find(store, "words", &space, &error));
    CHECK(strcmp(keyrack_space_name(space), "words") == 0);
    OK(keyrack_space_list(store, &list, &error));
    CHECK(keyrack_list_count(list) == 2 && strcmp(keyrack_list_text(list, 1), "words") == 0);
    CHECK(keyrack_list_text(list, 2) == NULL);
    keyrack_list_free(list);
    OK(keyrack_space_drop(store, "words", &dropped, &error));
    CHECK(dropped);
    OK(keyrack_space_drop(store, "words", &dropped, &error));
    CHECK(!dropped);
    FAILS(KEYRACK_USAGE, keyrack_put(space, T("a"), T("1"), 0, &error));
    keyrack_space_free(space);
}

static void use_the_store(keyrack_store *store, const char *dir) {
    keyrack_list *list;
    char *value;
    OK(keyrack_flush(store, &error));
    OK(keyrack_compact(store, &error));
    OK(keyrack_property(store, "keyrack.estimate-num-keys", &value, &error));
    CHECK(value != NULL && atoi(value) > 0);
    keyrack_free(value);
    OK(keyrack_property(store, "keyrack.nothing", &value, &error));
    CHECK(value == NULL);
    OK(keyrack_statistics(store, &list, &error));
    int has_flushes = 0;
    for (size_t i = 0; i < keyrack_list_count(list); i++) {
        const char *name = keyrack_list_text(list, i);
        has_flushes |= strstr(name, "flush") != NULL && keyrack_list_number(list, i) > 0;
    }
    CHECK(has_flushes);
    keyrack_list_free(list);
    OK(keyrack_checkpoint(store, in(dir, "checkpoint"), &error));
}

static void use_backups(keyrack_store *store, keyrack_space *space, const char *dir) {
    const char *target = in(dir, "backups");
    keyrack_list *list;
    char *first, *second;
    OK(keyrack_backup(store, target, &first, &error));
    OK(keyrack_put(space, T("later"), T("1"), 0, &error));
    OK(keyrack_backup(store, target, &second, &error));
    OK(keyrack_backup_list(target, &list, &error));
    CHECK(keyrack_list_count(list) == 2 && strcmp(keyrack_list_text(list, 0), first) == 0);
    CHECK(strcmp(keyrack_list_text(list, 1), second) == 0 && keyrack_list_number(list, 1) > 0);
    keyrack_list_free(list);
    OK(keyrack_backup_verify(target, NULL, &error));
    OK(keyrack_backup_verify(target, first, &error));
    FAILS(KEYRACK_USAGE, keyrack_backup_verify(target, "yesterday", &error));
    OK(keyrack_backup_restore(target, first, in(dir, "first"), &error));
    FAILS(KEYRACK_USAGE, keyrack_backup_restore(target, first, in(dir, "first"), &error));
    OK(keyrack_backup_restore(target, NULL, in(dir, "newest"), &error));
    OK(keyrack_backup_keep_newest(target, 1, &error));
    FAILS(KEYRACK_USAGE, keyrack_backup_verify(target, first, &error));
    keyrack_free(first);
    keyrack_free(second);
}

/* What a directory has under "later" and "seats". */
static void check_copy(const char *dir, const char *later) {
    keyrack_store *store;
    keyrack_space *space;
    OK(keyrack_open_read_only(dir, NULL, &store, &error));
    OK(keyrack_space_find(store, "people", &space, &error));
    CHECK(has(space, "later", later) && has(space, "seats", "3"));
    CHECK(keyrack_put(space, T("a"), T("1"), 0, &error) != KEYRACK_OK);
    keyrack_space_free(space);
    keyrack_store_free(store);
}

/* A store that is one set of keys, which have no other name than the store. */
static void use_a_plain_store(const char *dir) {
    keyrack_options *options = keyrack_options_new();
    keyrack_store *store, *second;
    keyrack_space *space;
    OK(keyrack_options_set(options, "key_spaces", "no", &error));
    OK(keyrack_open(dir, options, &store, &error));
    FAILS(KEYRACK_LOCKED, keyrack_open(dir, options, &second, &error));
    CHECK(second == NULL);
    FAILS(KEYRACK_USAGE, keyrack_space_open(store, "people", &space, &error));
    CHECK(space == NULL);
    OK(keyrack_space_open(store, "", &space, &error));
    use_keys(store, space);
    use_iterators(space);
    use_a_batch(store, space);
    use_transactions(store, space);
    keyrack_space_free(space);
    keyrack_store_free(store);
    OK(keyrack_options_set(options, "key_spaces", "yes", &error));
    FAILS(KEYRACK_USAGE, keyrack_open(dir, options, &store, &error));
    keyrack_options_free(options);
    OK(keyrack_open(dir, NULL, &store, &error));
    keyrack_list *list;
    OK(keyrack_space_list(store, &list, &error));
    CHECK(keyrack_list_count(list) == 1 && keyrack_list_text(list, 0)[0] == 0);
    keyrack_list_free(list);
    OK(keyrack_compact(store, &error));
    keyrack_store_free(store);
}

/* What a listener has heard. */
struct heard {
    int begun, ended, compactions;
    keyrack_store *store;
};

static void hear(void *context, const keyrack_event *event) {
    struct heard *heard = context;
    const char *name = keyrack_event_name(event);
    uint64_t number;
    char *value;
    if (strcmp(name, "flush_begun") == 0) {
        CHECK(keyrack_event_number(event, "memtable_bytes", 0, &number) && number > 0);
        CHECK(!keyrack_event_number(event, "memtable_bytes", 1, &number) && number == 0);
        CHECK(!keyrack_event_number(event, "error", 0, &number));
        CHECK(keyrack_event_text(event, "memtable_bytes") == NULL);
        heard->begun++;
    } else if (strcmp(name, "flush_ended") == 0) {
        CHECK(keyrack_event_number(event, "tables", 0, &number) && number > 0);
        CHECK(!keyrack_event_number(event, "tables", 1, NULL));
        CHECK(keyrack_event_number(event, "table_bytes", 0, &number) && number > 0);
        CHECK(keyrack_event_text(event, "error") == NULL);
        CHECK(keyrack_event_text(event, NULL) == NULL);
        /* No lock is held: the store may be used. */
        keyrack_error *failure = NULL;
        CHECK(keyrack_property(heard->store, "keyrack.flushes", &value, &failure) == KEYRACK_OK);
        CHECK(value != NULL);
        keyrack_free(value);
        heard->ended++;
    } else if (strcmp(name, "compaction_begun") == 0) {
        CHECK(strcmp(keyrack_event_text(event, "reason"), "caller") == 0);
        heard->compactions++;
    }
}

static void use_a_listener(const char *dir) {
    struct heard heard = {0, 0, 0, NULL};
    keyrack_options *options = keyrack_options_new();
    keyrack_space *space;
    FAILS(KEYRACK_USAGE, keyrack_options_set_listener(NULL, hear, &heard, &error));
    OK(keyrack_options_set_listener(options, hear, &heard, &error));
    OK(keyrack_options_set(options, "key_spaces", "no", &error));
    OK(keyrack_open(dir, options, &heard.store, &error));
    OK(keyrack_space_open(heard.store, "", &space, &error));
    OK(keyrack_put(space, T("a"), T("1"), 0, &error));
    OK(keyrack_flush(heard.store, &error));
    OK(keyrack_compact(heard.store, &error));
    keyrack_space_free(space);
    /* After this the listener is not called. */
    OK(keyrack_close(heard.store, &error));
    CHECK(heard.begun == 1 && heard.ended == 1 && heard.compactions >= 1);
    keyrack_store_free(heard.store);
    OK(keyrack_options_set_listener(options, NULL, NULL, &error));
    OK(keyrack_open(dir, options, &heard.store, &error));
    OK(keyrack_compact(heard.store, &error));
    keyrack_store_free(heard.store);
    keyrack_options_free(options);
    CHECK(heard.begun == 1 && heard.ended == 1);
}

/* A store that keeps its log was not opened without one. */
static void use_a_store_without_its_log(const char *dir) {
    keyrack_store *store;
    keyrack_options *options = keyrack_options_new();
    OK(keyrack_options_set(options, "log_retention_bytes", "1048576", &error));
    OK(keyrack_open(dir, options, &store, &error));
    keyrack_store_free(store);
    keyrack_options_free(options);
    options = keyrack_options_new();
    OK(keyrack_options_set(options, "durability", "none", &error));
    OK(keyrack_open(dir, options, &store, &error));
    keyrack_store_free(store);
    keyrack_options_free(options);
}

int main(int count, char **arguments) {
    CHECK(count == 2 && keyrack_abi_version() == KEYRACK_ABI_VERSION);
    CHECK(strchr(keyrack_version(), '.') != NULL);
    const char *dir = arguments[1];
    keyrack_store *store = open_store(in(dir, "db"));
    keyrack_space *people, *words;
    OK(keyrack_space_open(store, "people", &people, &error));
    OK(keyrack_space_open(store, "words", &words, &error));
    use_keys(store, people);
    use_iterators(people);
    use_batches(store, people, words);
    use_transactions(store, people);
    use_spaces(store);
    use_the_store(store, dir);
    use_backups(store, people, dir);
    keyrack_space_free(words);
    keyrack_space_free(people);
    OK(keyrack_close(store, &error));
    keyrack_store_free(store);
    check_copy(in(dir, "db"), "1");
    check_copy(in(dir, "first"), NULL);
    check_copy(in(dir, "newest"), "1");
    check_copy(in(dir, "checkpoint"), NULL);
    use_a_plain_store(in(dir, "plain"));
    use_a_listener(in(dir, "events"));
    use_a_store_without_its_log(in(dir, "unlogged"));
    OK(keyrack_destroy(in(dir, "db"), &error));
    FAILS(KEYRACK_USAGE, keyrack_open_read_only(in(dir, "db"), NULL, &store, &error));
    keyrack_error_free(error);
    puts("done");
    return 0;
}

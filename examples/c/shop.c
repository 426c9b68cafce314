/* A shop: its stock in a key space, four counters that sell at once, and a backup.
 *
 *     cc -pthread shop.c $(pkg-config --cflags --libs keyrack) -o shop && ./shop DIR
 */
#include <keyrack.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNTERS = 4, SALES = 10 };

/* Ends the program with the reason, if a call has failed. */
static void check(keyrack_code code, keyrack_error *error) {
    if (code != KEYRACK_OK) {
        fprintf(stderr, "shop: %s\n", keyrack_error_message(error));
        exit(1);
    }
}

static void put_stock(keyrack_space *stock, const char *name, int count) {
    keyrack_error *error = NULL;
    char text[16];
    int len = snprintf(text, sizeof text, "%d", count);
    check(keyrack_put(stock, name, strlen(name), text, (size_t)len, 0, &error), error);
}

/* The number that bytes are, which do not end with a zero. */
static int number(const char *bytes, size_t len) {
    char text[16] = "";
    memcpy(text, bytes, len < sizeof text ? len : sizeof text - 1);
    return atoi(text);
}

/* Prints all names from `low` on and before `high`. */
static void print_range(keyrack_space *stock, const char *low, const char *high) {
    keyrack_error *error = NULL;
    keyrack_iterator *it;
    check(keyrack_iterator_new(stock, NULL, low, strlen(low), high, strlen(high), &it, &error),
          error);
    check(keyrack_iterator_first(it, &error), error);
    while (keyrack_iterator_valid(it)) {
        size_t key_len, value_len;
        const char *key = keyrack_iterator_key(it, &key_len);
        const char *value = keyrack_iterator_value(it, &value_len);
        printf("%.*s %.*s\n", (int)key_len, key, (int)value_len, value);
        check(keyrack_iterator_next(it, &error), error);
    }
    keyrack_iterator_free(it);
}

static int stock_of(keyrack_space *stock, const char *name) {
    keyrack_error *error = NULL;
    char *value;
    size_t len;
    check(keyrack_get(stock, NULL, name, strlen(name), &value, &len, &error), error);
    int count = value ? number(value, len) : 0;
    keyrack_free(value);
    return count;
}

struct shop {
    keyrack_store *store;
    keyrack_space *stock;
};

/* Sells one piece: reads, decides and writes as one step. Begins again if somebody else was faster. */
static void sell_one(const struct shop *shop, const char *name) {
    keyrack_error *error = NULL;
    keyrack_code code;
    do {
        keyrack_transaction *sale;
        char *value, text[16];
        size_t len;
        check(keyrack_transaction_begin(shop->store, 0, &sale, &error), error);
        check(keyrack_transaction_get(sale, shop->stock, name, strlen(name), &value, &len, &error),
              error);
        int left = snprintf(text, sizeof text, "%d", (value ? number(value, len) : 0) - 1);
        keyrack_free(value);
        check(keyrack_transaction_put(sale, shop->stock, name, strlen(name), text, (size_t)left,
                                      &error),
              error);
        code = keyrack_transaction_commit(sale, &error);
        keyrack_transaction_free(sale);
    } while (code == KEYRACK_CONFLICT);
    check(code, error);
    keyrack_error_free(error);
}

static void *sell(void *argument) {
    for (int i = 0; i < SALES; i++)
        sell_one(argument, "apples");
    return NULL;
}

/* Opens the store in DIR/NAME, and its key space. */
static struct shop open_shop(const char *dir, const char *name) {
    keyrack_error *error = NULL;
    struct shop shop;
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    check(keyrack_open(path, NULL, &shop.store, &error), error);
    check(keyrack_space_open(shop.store, "stock", &shop.stock, &error), error);
    return shop;
}

static void close_shop(struct shop shop) {
    keyrack_error *error = NULL;
    check(keyrack_close(shop.store, &error), error);
    keyrack_space_free(shop.stock);
    keyrack_store_free(shop.store);
}

int main(int count, char **arguments) {
    if (count != 2 || keyrack_abi_version() != KEYRACK_ABI_VERSION) {
        fprintf(stderr, "usage: shop DIR, with the library that keyrack.h is of\n");
        return 2;
    }
    const char *dir = arguments[1];
    struct shop shop = open_shop(dir, "shop");
    put_stock(shop.stock, "pears", 20);
    put_stock(shop.stock, "apples", 100);
    put_stock(shop.stock, "plums", 5);
    put_stock(shop.stock, "tools/knife", 1);
    print_range(shop.stock, "a", "q");

    pthread_t counters[COUNTERS];
    for (int i = 0; i < COUNTERS; i++)
        if (pthread_create(&counters[i], NULL, sell, &shop) != 0)
            return 1;
    for (int i = 0; i < COUNTERS; i++)
        pthread_join(counters[i], NULL);
    printf("sold %d apples at %d counters, %d are left\n", COUNTERS * SALES, COUNTERS,
           stock_of(shop.stock, "apples"));

    keyrack_error *error = NULL;
    char backups[4096], restored[4096], *id;
    snprintf(backups, sizeof backups, "%s/backups", dir);
    snprintf(restored, sizeof restored, "%s/restored", dir);
    check(keyrack_backup(shop.store, backups, &id, &error), error);
    put_stock(shop.stock, "apples", 0);
    close_shop(shop);
    check(keyrack_backup_restore(backups, id, restored, &error), error);
    keyrack_free(id);
    struct shop copy = open_shop(dir, "restored");
    printf("the backup has %d apples\n", stock_of(copy.stock, "apples"));
    close_shop(copy);
    return 0;
}

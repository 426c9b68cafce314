/* What the programs of the tests share: checks that say where they fail. */
#ifndef COMMON_H
#define COMMON_H

#include "keyrack.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what);                             \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* A call that succeeds; `error` is a variable of the caller's. */
#define OK(call)                                                                                   \
    do {                                                                                           \
        keyrack_code answer_ = (call);                                                             \
        if (answer_ != KEYRACK_OK) {                                                               \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, keyrack_code_name(answer_),     \
                    keyrack_error_message(error));                                                 \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* A call that fails with a code, and says so in its error. */
#define FAILS(code, call)                                                                          \
    do {                                                                                           \
        CHECK((call) == (code));                                                                   \
        CHECK(keyrack_error_code(error) == (code));                                                \
        CHECK(keyrack_error_message(error)[0] != 0);                                               \
    } while (0)

/* A text as an argument: its bytes, and how many. */
#define T(text) (text), strlen(text)

/* The path of a name in the directory of the test; it lives until the next call but three. */
static inline const char *in(const char *dir, const char *name) {
    static char paths[4][512];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", dir, name);
    return path;
}

/* Whether bytes are a text. */
static inline int is(const char *bytes, size_t len, const char *text) {
    return bytes != NULL && len == strlen(text) && memcmp(bytes, text, len) == 0;
}

/* Whether a key has a value now; a null text is no value. */
static inline int has(keyrack_space *space, const char *key, const char *text) {
    char *value;
    size_t len;
    keyrack_error *error = NULL;
    OK(keyrack_get(space, NULL, T(key), &value, &len, &error));
    int as_expected = text == NULL ? value == NULL && len == 0 : is(value, len, text);
    keyrack_free(value);
    return as_expected;
}

#endif

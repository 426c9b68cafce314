// The header in C++: the same calls by the same names.
#include "keyrack.h"
#include <cstdio>
#include <string>

int main(int count, char **arguments) {
    if (count != 2 || keyrack_abi_version() != KEYRACK_ABI_VERSION)
        return 2;
    const std::string dir = std::string(arguments[1]) + "/db";
    keyrack_store *store = nullptr;
    keyrack_space *space = nullptr;
    keyrack_error *error = nullptr;
    if (keyrack_open(dir.c_str(), nullptr, &store, &error) != KEYRACK_OK ||
        keyrack_space_open(store, "words", &space, &error) != KEYRACK_OK ||
        keyrack_put(space, "a", 1, "1", 1, KEYRACK_SYNC, &error) != KEYRACK_OK ||
        keyrack_close(store, &error) != KEYRACK_OK) {
        std::fprintf(stderr, "%s\n", keyrack_error_message(error));
        return 1;
    }
    keyrack_space_free(space);
    keyrack_store_free(store);
    std::puts("done");
    return 0;
}

/* Directories that are no database of this library, or not only: what LevelDB wrote, however
 * damaged, and what belongs to somebody else, stays as it is.
 *
 *     directories DIR
 *
 * DIR is an empty directory. Prints `done`.
 */
#include "leveldb/c.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define CHECK(condition) check((condition), #condition, __LINE__)

static void check(int is_true, const char *what, int line)
{
    if (!is_true) {
        fprintf(stderr, "directories.c:%d: %s\n", line, what);
        exit(1);
    }
}

static leveldb_options_t *options;
static char path[8192];

static const char *in_dir(const char *dir, const char *name)
{
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static void make(const char *dir, const char *name, const char *text)
{
    FILE *file = fopen(in_dir(dir, name), "w");
    CHECK(file != NULL);
    fputs(text, file);
    CHECK(fclose(file) == 0);
}

/* Fails unless a file has exactly this text. */
static void has_at(const char *dir, const char *name, const char *text, int line)
{
    char found[256] = "";
    FILE *file = fopen(in_dir(dir, name), "r");
    check(file != NULL, name, line);
    size_t len = fread(found, 1, sizeof found, file);
    fclose(file);
    check(len == strlen(text) && memcmp(found, text, len) == 0, name, line);
}

#define HAS(dir, name, text) has_at((dir), (name), (text), __LINE__)

static void refused_at(char *error, int line)
{
    if (error == NULL || strstr(error, ": holds a database that LevelDB wrote; ") == NULL) {
        fprintf(stderr, "directories.c:%d: %s\n", line, error ? error : "no error");
        exit(1);
    }
    leveldb_free(error);
}

#define REFUSED(error) refused_at((error), __LINE__)

/* A database of LevelDB with these files. Each has its name as its text, but CURRENT has none. */
static void leveldb_with(const char *dir, const char *const *names)
{
    CHECK(mkdir(dir, 0777) == 0);
    for (int i = 0; names[i] != NULL; i++)
        make(dir, names[i], strcmp(names[i], "CURRENT") == 0 ? "" : names[i]);
    for (int create = 0; create < 2; create++) {
        char *error = NULL;
        leveldb_options_set_create_if_missing(options, (unsigned char) create);
        CHECK(leveldb_open(options, dir, &error) == NULL);
        REFUSED(error);
        error = NULL;
        leveldb_repair_db(options, dir, &error);
        REFUSED(error);
        error = NULL;
        leveldb_destroy_db(options, dir, &error);
        REFUSED(error);
    }
    for (int i = 0; names[i] != NULL; i++) {
        HAS(dir, names[i], strcmp(names[i], "CURRENT") == 0 ? "" : names[i]);
        CHECK(remove(in_dir(dir, names[i])) == 0);
    }
    /* Nothing was added. */
    CHECK(remove(dir) == 0);
}

/* What a crash, a check of the file system or a lost file leaves of LevelDB's. */
static void of_leveldb(const char *dir)
{
    const char *emptied[] = { "CURRENT", "MANIFEST-000004", "000005.ldb", "000006.log", NULL };
    const char *young[] = { "MANIFEST-000002", "000003.log", NULL };
    const char *manifest[] = { "MANIFEST-000002", NULL };
    const char *old[] = { "CURRENT", "000005.sst", NULL };
    char name[4096];
    snprintf(name, sizeof name, "%s/leveldb", dir);
    leveldb_with(name, emptied);
    leveldb_with(name, young);
    leveldb_with(name, manifest);
    leveldb_with(name, old);
}

/* A stranger's directory with a `log` in it, and a file whose name is nearly one of a store. */
static void of_others(const char *dir)
{
    const char *names[] = { "MANIFEST-new", "2024.table", "MANIFEST-", NULL };
    char name[2048], log[4096];
    for (int i = 0; names[i] != NULL; i++) {
        snprintf(name, sizeof name, "%s/others%d", dir, i);
        snprintf(log, sizeof log, "%s/log", name);
        CHECK(mkdir(name, 0777) == 0 && mkdir(log, 0777) == 0);
        make(name, names[i], "mine");
        make(log, "today.txt", "mine");
        char *error = NULL;
        leveldb_destroy_db(options, name, &error);
        CHECK(error == NULL);
        leveldb_repair_db(options, name, &error);
        CHECK(error != NULL && strncmp(error, "Invalid argument: ", 18) == 0);
        leveldb_free(error);
        HAS(name, names[i], "mine");
        HAS(log, "today.txt", "mine");
    }
}

/* A database, and files that somebody else has put beside it. */
static void shared(const char *dir)
{
    char name[2048], log[4096], *error = NULL;
    snprintf(name, sizeof name, "%s/shared", dir);
    snprintf(log, sizeof log, "%s/log", name);
    leveldb_options_set_create_if_missing(options, 1);
    leveldb_close(leveldb_open(options, name, &error));
    CHECK(error == NULL);
    make(name, "notes.txt", "mine");
    make(log, "today.txt", "mine");
    leveldb_destroy_db(options, name, &error);
    CHECK(error == NULL);
    HAS(name, "notes.txt", "mine");
    HAS(log, "today.txt", "mine");
    /* All that was the database's is gone. */
    CHECK(remove(in_dir(log, "today.txt")) == 0 && remove(log) == 0);
    CHECK(remove(in_dir(name, "notes.txt")) == 0 && remove(name) == 0);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    options = leveldb_options_create();
    of_leveldb(argv[1]);
    of_others(argv[1]);
    shared(argv[1]);
    leveldb_options_destroy(options);
    puts("done");
    return 0;
}

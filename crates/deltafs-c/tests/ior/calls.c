/* Calls every function of the backend for IOR, as IOR would: `calls OPTION=VALUE..`, where an option
 * is one of the backend without its dashes. Says what was not as it should be. */
#include "aiori.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

extern ior_aiori_t keyrack_aiori;

int rank = 1;
int warnings;

void *safeMalloc(uint64_t size) {
    void *memory = malloc(size);

    if (memory == NULL)
        ERR("no memory");
    return memory;
}

#define CHECK(condition)                                                                \
    do {                                                                                \
        if (!(condition)) {                                                             \
            printf("line %d: %s: %s\n", __LINE__, #condition, strerror(errno));         \
            exit(1);                                                                    \
        }                                                                               \
    } while (0)

/* What is done last was refused with a warning. */
#define WARNS(condition)          \
    do {                          \
        int before = warnings;    \
        CHECK(condition);         \
        CHECK(warnings > before); \
    } while (0)

static const ior_aiori_t *const b = &keyrack_aiori;

static void set_option(const option_help *all, const char *word) {
    const char *value = strchr(word, '=');

    CHECK(value != NULL);
    for (; all->longVar != NULL; all++)
        if (strlen(all->longVar) == (size_t)(value - word)
            && strncmp(all->longVar, word, (size_t)(value - word)) == 0) {
            if (all->type == 's')
                *(char **)all->variable = (char *)(value + 1);
            else
                *(int *)all->variable = atoi(value + 1);
            return;
        }
    ERRF("no option %s", word);
}

static void put(const char *path, int flags, const char *text, aiori_mod_opt_t *o) {
    aiori_fd_t *fd = b->create((char *)path, IOR_WRONLY | IOR_CREAT | flags, o);
    IOR_offset_t length = (IOR_offset_t)strlen(text);

    CHECK(fd != NULL);
    CHECK(b->xfer(WRITE, fd, (IOR_size_t *)text, length, 0, o) == length);
    b->fsync(fd, o);
    b->close(fd, o);
}

static void use_files(aiori_xfer_hint_t *hints, aiori_mod_opt_t *o) {
    char bytes[16] = {0};
    struct stat found;
    aiori_fd_t *fd;

    /* Of a file of one rank IOR_TRUNC cuts what was there, of a shared one it does not. */
    put("/a/f", 0, "0123456789", o);
    hints->filePerProc = 0;
    put("/a/f", IOR_TRUNC, "abc", o);
    CHECK(b->get_file_size(o, "/a/f") == 10);
    hints->filePerProc = 1;
    hints->fsyncPerWrite = 1;
    put("/a/f", IOR_TRUNC, "xyz", o);
    CHECK(b->get_file_size(o, "/a/f") == 3);
    WARNS(b->create("/a/f", IOR_WRONLY | IOR_CREAT | IOR_EXCL, o) == NULL);

    /* With slashes too many or too few it is the same file. */
    fd = b->open("a//f/", IOR_RDONLY, o);
    CHECK(fd != NULL);
    CHECK(b->xfer(READ, fd, (IOR_size_t *)bytes, 8, 1, o) == 2 && strcmp(bytes, "yz") == 0);
    b->close(fd, o);
    WARNS(b->open("/a/none", IOR_RDONLY, o) == NULL);
    WARNS(b->get_file_size(o, "/a/none") == -1);
    fd = b->open("/a/made", IOR_WRONLY | IOR_CREAT, o);
    CHECK(fd != NULL);
    b->remove("/a/made", o);
    WARNS(b->xfer(WRITE, fd, (IOR_size_t *)bytes, 1, 0, o) == -1);
    WARNS((b->remove("/a/made", o), 1));
    b->close(fd, o);

    CHECK(b->mknod("/a/node") == 0);
    CHECK(b->mknod("/a/node") == -1 && errno == EEXIST);
    CHECK(b->stat("/a/node", &found, o) == 0 && S_ISREG(found.st_mode) && found.st_size == 0);
    CHECK(found.st_mtime > 1500000000 && found.st_nlink == 1);

    /* A dry run changes nothing. */
    hints->dryRun = 1;
    fd = b->create("/a/dry", IOR_WRONLY | IOR_CREAT, o);
    CHECK(fd != NULL && b->xfer(WRITE, fd, (IOR_size_t *)bytes, 5, 0, o) == 5);
    b->close(fd, o);
    b->remove("/a/f", o);
    hints->dryRun = 0;
    CHECK(b->access("/a/dry", F_OK, o) == -1 && errno == ENOENT);
    CHECK(b->access("/a/f", F_OK, o) == 0);
}

static void use_directories(aiori_mod_opt_t *o) {
    ior_aiori_statfs_t disk;
    struct stat found;

    CHECK(b->mkdir("/a", 0755, o) == -1 && errno == EEXIST);
    CHECK(b->rmdir("/a", o) == -1 && errno == ENOTEMPTY);
    CHECK(b->stat("/a", &found, o) == 0 && S_ISDIR(found.st_mode));
    CHECK(b->rename("/a/f", "/a/g", o) == 0);
    CHECK(b->rename("/a/f", "/a/g", o) == -1 && errno == ENOENT);
    CHECK(b->rename("/a", "/b/", o) == 0);
    CHECK(b->access("/a/g", F_OK, o) == -1 && b->access("/b/g", R_OK | W_OK, o) == 0);
    b->sync(o);
    CHECK(b->statfs("/", &disk, o) == 0 && disk.f_blocks >= disk.f_bfree && disk.f_bsize > 0);
}

/* The rights of another user, by the bits of others: 0664 of a file. */
static void use_as_another(aiori_mod_opt_t *o) {
    CHECK(b->access("/b/g", F_OK, o) == 0 && b->access("/b/g", R_OK, o) == 0);
    CHECK(b->access("/b/g", W_OK, o) == -1 && errno == EACCES);
    CHECK(b->access("/b", R_OK | X_OK, o) == 0);
    CHECK(b->mkdir("/b/c", 0755, o) == -1 && errno == EACCES);
    WARNS((b->remove("/b/g", o), 1));
}

int main(int argc, char **argv) {
    aiori_xfer_hint_t hints = {0};
    aiori_mod_opt_t *given = NULL;
    aiori_mod_opt_t *o = NULL;
    option_help *help = b->get_options(&given, NULL);
    int has_dir = 0;
    int i;

    for (i = 1; i < argc; i++) {
        set_option(help, argv[i]);
        has_dir |= strncmp(argv[i], "keyrack.dir=", 12) == 0;
    }
    b->get_options(&o, given);
    CHECK(b->enable_mdtest && b->check_params(o) == 0);
    b->initialize(o);
    b->initialize(o);
    b->xfer_hints(&hints);
    CHECK(strcmp(b->get_version(), "2") == 0);

    /* A log of one rank gets the directories of the others; servers have them. */
    CHECK(b->mkdir("/a/deep/er", 0755, o) == (has_dir ? 0 : -1));
    CHECK(b->mkdir("/a/deep/er", 0755, o) == -1 && errno == (has_dir ? EEXIST : ENOENT));
    if (!has_dir)
        CHECK(b->mkdir("/a", 0755, o) == 0);
    use_files(&hints, o);
    b->finalize(o);
    use_directories(o);
    b->finalize(o);

    set_option(help, "keyrack.uid=1000");
    set_option(help, "keyrack.gid=1000");
    b->initialize(given);
    use_as_another(given);
    b->finalize(given);
    puts("done");
    return 0;
}

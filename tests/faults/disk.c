// Lets system calls on files below a folder fail, as a full, broken or read-only disk would. Loaded by LD_PRELOAD.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { WRITE = 1, CREATE = 2, REMOVE = 4, READ = 8 };

static char folder[PATH_MAX];
static long calls, first, last, counts[9];
static int kinds, number;

// Calls of these kinds fail with this error from the first to the last, counted from 1; 0 lets all of them pass.
void disk_fail(const char *where, int which, long from, long to, int error) {
    calls = 0;
    kinds = which;
    first = from;
    last = to;
    number = error;
    snprintf(folder, sizeof folder, "%s", where);
}

// How many calls of this kind there were, of those that may fail.
long disk_calls(int kind) { return counts[kind]; }

static int fails(int kind, const char *path) {
    size_t length = strlen(folder);
    if (!length || !(kinds & kind) || strncmp(path, folder, length) || (path[length] && path[length] != '/')) return 0;
    __sync_add_and_fetch(&counts[kind], 1);
    long call = __sync_add_and_fetch(&calls, 1);
    if (!first || call < first || call > last) return 0;
    errno = number;
    return 1;
}

static void path_of(int file, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    long length = syscall(SYS_readlink, link, path, PATH_MAX - 1);
    path[length < 0 ? 0 : length] = 0;
}

static int fails_file(int kind, int file) {
    char path[PATH_MAX];
    if (!folder[0] || !(kinds & kind)) return 0;
    path_of(file, path);
    return fails(kind, path);
}

static int fails_at(int kind, int place, const char *name) {
    char path[2 * PATH_MAX];
    if (!folder[0] || name[0] == '/') return fails(kind, name);
    if (place == AT_FDCWD) {
        if (!getcwd(path, PATH_MAX)) return 0;
    } else {
        path_of(place, path);
    }
    snprintf(path + strlen(path), PATH_MAX, "/%s", name);
    return fails(kind, path);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int file, const void *data, size_t size) {
    return fails_file(WRITE, file) ? -1 : REAL(write)(file, data, size);
}
ssize_t writev(int file, const struct iovec *parts, int count) {
    return fails_file(WRITE, file) ? -1 : REAL(writev)(file, parts, count);
}
ssize_t pwrite64(int file, const void *data, size_t size, off64_t at) {
    return fails_file(WRITE, file) ? -1 : REAL(pwrite64)(file, data, size, at);
}
int fsync(int file) { return fails_file(WRITE, file) ? -1 : REAL(fsync)(file); }
ssize_t read(int file, void *data, size_t size) { return fails_file(READ, file) ? -1 : REAL(read)(file, data, size); }
ssize_t pread64(int file, void *data, size_t size, off64_t at) {
    return fails_file(READ, file) ? -1 : REAL(pread64)(file, data, size, at);
}
ssize_t sendfile64(int out, int in, off64_t *at, size_t size);
ssize_t sendfile64(int out, int in, off64_t *at, size_t size) {
    return fails_file(WRITE, out) ? -1 : REAL(sendfile64)(out, in, at, size);
}

static int opening(int flags) { return flags & (O_CREAT | O_WRONLY | O_RDWR) ? CREATE : 0; }
#define OPEN(name)                                                                                                     \
    int name(const char *path, int flags, ...) {                                                                      \
        va_list more;                                                                                                  \
        va_start(more, flags);                                                                                         \
        mode_t mode = va_arg(more, mode_t);                                                                            \
        va_end(more);                                                                                                  \
        return fails_at(opening(flags), AT_FDCWD, path) ? -1 : REAL(name)(path, flags, mode);                          \
    }
OPEN(open)
OPEN(open64)
#define OPENAT(name)                                                                                                   \
    int name(int place, const char *path, int flags, ...) {                                                           \
        va_list more;                                                                                                  \
        va_start(more, flags);                                                                                         \
        mode_t mode = va_arg(more, mode_t);                                                                            \
        va_end(more);                                                                                                  \
        return fails_at(opening(flags), place, path) ? -1 : REAL(name)(place, path, flags, mode);                      \
    }
OPENAT(openat)
OPENAT(openat64)

int mkdir(const char *path, mode_t mode) { return fails_at(CREATE, AT_FDCWD, path) ? -1 : REAL(mkdir)(path, mode); }
int rename(const char *old, const char *new) { return fails_at(CREATE, AT_FDCWD, new) ? -1 : REAL(rename)(old, new); }
int renameat2(int from, const char *old, int to, const char *new, unsigned int flags) {
    return fails_at(CREATE, to, new) ? -1 : REAL(renameat2)(from, old, to, new, flags);
}
int unlink(const char *path) { return fails_at(REMOVE, AT_FDCWD, path) ? -1 : REAL(unlink)(path); }
int unlinkat(int place, const char *path, int flags) {
    return fails_at(REMOVE, place, path) ? -1 : REAL(unlinkat)(place, path, flags);
}
int rmdir(const char *path) { return fails_at(REMOVE, AT_FDCWD, path) ? -1 : REAL(rmdir)(path); }

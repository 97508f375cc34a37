/* Counts the calls that change files below one directory, and lets one of them fail.

   Preloaded into an engine. Every process of it shares one control file, which is mapped here and in
   the test (see __init__.py for its fields). */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum action { FAIL = 1, KILL = 2, TEAR = 3 };

struct control {
    int32_t armed, error, action, lasts;
    int64_t number, count;
    int32_t victim, unused;
    char folder[512], hit[512];
};

static struct control *control;

__attribute__((constructor)) static void map_control(void) {
    const char *path = getenv("SBX_FAILING_CALLS");
    int (*real)(const char *, int, ...) = dlsym(RTLD_NEXT, "open");
    int fd = path ? real(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0) return;
    void *found = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (found != MAP_FAILED) control = found;
}

static void path_of(int fd, char *into) {
    char link[64];
    snprintf(link, sizeof link, fd == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, into, PATH_MAX - 1);
    into[length < 0 ? 0 : length] = 0;
}

/* Whether this call is to fail; it does not return where it is to be the last. */
static int is_hit(const char *call, int fd, const char *name, int grows) {
    if (!control || !control->armed) return 0;
    int before = errno;
    char path[2 * PATH_MAX], base[PATH_MAX];
    if (name && name[0] == '/') {
        snprintf(path, sizeof path, "%s", name);
    } else {
        path_of(fd, base);
        snprintf(path, sizeof path, name ? "%s/%s" : "%s", base, name);
    }
    errno = before;
    size_t length = strlen(control->folder), whole = strlen(path);
    if (strncmp(path, control->folder, length) || path[length] != '/') return 0;
    if (whole > 4 && !strcmp(path + whole - 4, ".log")) return 0;
    if (!grows && control->action == FAIL && control->error == ENOSPC) return 0;
    int64_t number = __atomic_add_fetch(&control->count, 1, __ATOMIC_SEQ_CST);
    if (number < control->number || (number > control->number && !control->lasts)) return 0;
    if (number == control->number)
        snprintf(control->hit, sizeof control->hit, "%s %s", call, path + length + 1);
    if (control->action == KILL) {
        if (control->victim) kill(control->victim, SIGKILL);
        kill(getpid(), SIGKILL);
    }
    return 1;
}

static int fail(void) {
    errno = control->error;
    return -1;
}

#define REAL(name) ({ static __typeof__(&name) real; if (!real) real = dlsym(RTLD_NEXT, #name); real; })

static void die(void) {
    if (control->victim) kill(control->victim, SIGKILL);
    kill(getpid(), SIGKILL);
}

#define WRITES(name, extra_parameter, extra) \
    ssize_t name(int fd, const void *from, size_t size extra_parameter) { \
        if (!is_hit(#name, fd, NULL, 1)) return REAL(name)(fd, from, size extra); \
        if (control->action != TEAR) return fail(); \
        REAL(name)(fd, from, size / 2 extra); \
        die(); \
        return -1; \
    }
#define COMMA ,
WRITES(write, , )
WRITES(pwrite, COMMA off_t at, COMMA at)
WRITES(pwrite64, COMMA off64_t at, COMMA at)

#define CALL(type, name, parameters, arguments, fd, path, grows) \
    type name parameters { \
        if (is_hit(#name, fd, path, grows)) { if (control->action == TEAR) die(); return fail(); } \
        return REAL(name) arguments; \
    }
CALL(ssize_t, writev, (int fd, const struct iovec *v, int n), (fd, v, n), fd, NULL, 1)
CALL(int, ftruncate, (int fd, off_t size), (fd, size), fd, NULL, 0)
CALL(int, ftruncate64, (int fd, off64_t size), (fd, size), fd, NULL, 0)
CALL(int, fsync, (int fd), (fd), fd, NULL, 1)
CALL(int, fdatasync, (int fd), (fd), fd, NULL, 1)
CALL(int, mkdir, (const char *p, mode_t m), (p, m), AT_FDCWD, p, 1)
CALL(int, mkdirat, (int d, const char *p, mode_t m), (d, p, m), d, p, 1)
CALL(int, rename, (const char *p, const char *q), (p, q), AT_FDCWD, q, 0)
CALL(int, renameat, (int d, const char *p, int e, const char *q), (d, p, e, q), e, q, 0)
CALL(int, renameat2, (int d, const char *p, int e, const char *q, unsigned f), (d, p, e, q, f), e, q, 0)
CALL(int, link, (const char *p, const char *q), (p, q), AT_FDCWD, q, 1)
CALL(int, linkat, (int d, const char *p, int e, const char *q, int f), (d, p, e, q, f), e, q, 1)
CALL(int, symlink, (const char *p, const char *q), (p, q), AT_FDCWD, q, 1)
CALL(int, symlinkat, (const char *p, int e, const char *q), (p, e, q), e, q, 1)
CALL(int, unlink, (const char *p), (p), AT_FDCWD, p, 0)
CALL(int, unlinkat, (int d, const char *p, int f), (d, p, f), d, p, 0)
CALL(int, rmdir, (const char *p), (p), AT_FDCWD, p, 0)

/* These return the error instead of setting it. */
#define ALLOCATES(name, type) \
    int name(int fd, type at, type size) { \
        if (is_hit(#name, fd, NULL, 1)) { if (control->action == TEAR) die(); return control->error; } \
        return REAL(name)(fd, at, size); \
    }
ALLOCATES(posix_fallocate, off_t)
ALLOCATES(posix_fallocate64, off64_t)

/* A file that is opened to be made; one that is there already counts too. */
#define OPENS(name, parameters, last, arguments, fd, path) \
    int name parameters { \
        mode_t mode = 0; \
        if (flags & (O_CREAT | __O_TMPFILE)) { \
            va_list rest; \
            va_start(rest, last); \
            mode = va_arg(rest, mode_t); \
            va_end(rest); \
            int is_new = faccessat(fd, path, F_OK, AT_SYMLINK_NOFOLLOW) != 0; \
            if (is_hit(#name, fd, path, is_new)) { if (control->action == TEAR) die(); return fail(); } \
        } \
        return REAL(name) arguments; \
    }
OPENS(open, (const char *p, int flags, ...), flags, (p, flags, mode), AT_FDCWD, p)
OPENS(open64, (const char *p, int flags, ...), flags, (p, flags, mode), AT_FDCWD, p)
OPENS(openat, (int d, const char *p, int flags, ...), flags, (d, p, flags, mode), d, p)
OPENS(openat64, (int d, const char *p, int flags, ...), flags, (d, p, flags, mode), d, p)

/* A disk without space says so too. */
#define STATES(name, type) \
    int name(const char *path, struct type *found) { \
        int result = REAL(name)(path, found); \
        if (control && control->armed && control->lasts && control->count >= control->number) \
            found->f_bavail = found->f_bfree = 0; \
        return result; \
    }
STATES(statvfs, statvfs)
STATES(statvfs64, statvfs64)

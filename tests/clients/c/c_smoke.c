/* Runs the unmodified C client of ZooKeeper (libzookeeper_mt) against one server.
 *
 *     c_smoke FOLDER PORT [NAME-PART ...]     run the tests whose name contains one of the parts
 *
 * The server is SERVER_CMD with FOLDER/zoo.cfg as its last argument; that file must name PORT, a tick of TICK_MS and
 * open four-letter words. Each test is one function and runs in a process of its own, so that a crash or a hang of the
 * library is one failed test. The process that supervises them has no threads; it starts the server again when a test
 * has ended it, and ends it at last by its pid. The last line is `N passed, N failed`.
 */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <zookeeper/zookeeper.h>

enum {
    TICK_MS = 500,
    SESSION_MS = 8000,
    SHORT_SESSION_MS = 2000,
    WAIT_SECONDS = 30,
    TEST_SECONDS = 90,
    START_SECONDS = 60,
    FRAME_BYTES_MAX = 1048575, /* the default of jute.maxbuffer, inclusive */
    NOTES_MAX = 8192,
    PATH_BYTES_MAX = 256,
};

static const char *folder;
static const char *test_name;
static int port;
static pid_t server;

/* ---- checks: the first one that does not hold ends the test's process */

static void fail(int line, const char *format, ...) {
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    printf("FAILED %s\n  c_smoke.c:%d: %s\n", test_name, line, text);
    fflush(stdout);
    _exit(1);
}

static void same_number(int line, const char *what, long long actual, long long expected) {
    if (actual != expected)
        fail(line, "%s is %lld, expected %lld", what, actual, expected);
}

static void same_string(int line, const char *what, const char *actual, const char *expected) {
    if (strcmp(actual, expected) != 0)
        fail(line, "%s is \"%s\", expected \"%s\"", what, actual, expected);
}

static void same_stats(int line, const char *what, struct Stat a, struct Stat b) {
    bool same_ids = a.czxid == b.czxid && a.mzxid == b.mzxid && a.pzxid == b.pzxid
                    && a.ephemeralOwner == b.ephemeralOwner;
    bool same_times = a.ctime == b.ctime && a.mtime == b.mtime;
    bool same_versions = a.version == b.version && a.cversion == b.cversion && a.aversion == b.aversion;
    bool same_sizes = a.dataLength == b.dataLength && a.numChildren == b.numChildren;
    if (!same_ids || !same_times || !same_versions || !same_sizes)
        fail(line, "%s differ: ids %d, times %d, versions %d, sizes %d are the same", what, same_ids, same_times,
             same_versions, same_sizes);
}

#define same(actual, expected) same_number(__LINE__, #actual, (actual), (expected))
#define same_text(actual, expected) same_string(__LINE__, #actual, (actual), (expected))
#define same_stat(actual, expected) same_stats(__LINE__, #actual " and " #expected, (actual), (expected))
#define holds(condition)                                                                                              \
    do {                                                                                                              \
        if (!(condition))                                                                                             \
            fail(__LINE__, "%s does not hold", #condition);                                                           \
    } while (0)

static long long now_ms(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

/* ---- notes: what the library's threads tell the test, a line each, in the order it was told */

struct Notes {
    pthread_mutex_t lock;
    pthread_cond_t more;
    char *lines[NOTES_MAX];
    int count, taken;
};

/* Lives as long as its test: the library may call back until the process ends. */
static struct Notes *new_notes(void) {
    struct Notes *notes = calloc(1, sizeof *notes);
    holds(notes != NULL);
    pthread_mutex_init(&notes->lock, NULL);
    pthread_cond_init(&notes->more, NULL);
    return notes;
}

static void note(const void *target, const char *format, ...) {
    struct Notes *notes = (struct Notes *)target;
    char *text = NULL;
    va_list args;
    va_start(args, format);
    holds(vasprintf(&text, format, args) >= 0);
    va_end(args);
    pthread_mutex_lock(&notes->lock);
    holds(notes->count < NOTES_MAX);
    notes->lines[notes->count++] = text;
    pthread_cond_broadcast(&notes->more);
    pthread_mutex_unlock(&notes->lock);
}

/* The next line; `wanted` is for the message when none comes. */
static const char *next_line(int line, struct Notes *notes, const char *wanted) {
    struct timespec deadline;
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += WAIT_SECONDS;
    pthread_mutex_lock(&notes->lock);
    while (notes->taken == notes->count)
        if (pthread_cond_timedwait(&notes->more, &notes->lock, &deadline) == ETIMEDOUT)
            fail(line, "\"%s\" did not come within %d s", wanted, WAIT_SECONDS);
    const char *text = notes->lines[notes->taken++];
    pthread_mutex_unlock(&notes->lock);
    return text;
}

static void await_line(int line, struct Notes *notes, const char *wanted) {
    while (strcmp(next_line(line, notes, wanted), wanted) != 0)
        ;
}

static int untaken(struct Notes *notes) {
    pthread_mutex_lock(&notes->lock);
    int count = notes->count - notes->taken;
    pthread_mutex_unlock(&notes->lock);
    return count;
}

#define next_is(notes, expected) same_string(__LINE__, "the next note", next_line(__LINE__, notes, expected), expected)
#define await(notes, wanted) await_line(__LINE__, notes, wanted) /* lines before it are passed over */

/* ---- callbacks; their last argument is the Notes to write to */

static const char *event_name(int type) {
    return type == ZOO_CREATED_EVENT   ? "created"
           : type == ZOO_DELETED_EVENT ? "deleted"
           : type == ZOO_CHANGED_EVENT ? "changed"
           : type == ZOO_CHILD_EVENT   ? "child"
                                       : "unknown event";
}

static const char *state_name(int state) {
    return state == ZOO_CONNECTED_STATE         ? "connected"
           : state == ZOO_CONNECTING_STATE      ? "connecting"
           : state == ZOO_EXPIRED_SESSION_STATE ? "expired"
           : state == ZOO_AUTH_FAILED_STATE     ? "auth failed"
                                                : "unknown state";
}

/* A change of the session's state is told to every watcher; only the handle's own writes it down. */
static void on_event(zhandle_t *zh, int type, int state, const char *path, void *notes) {
    if (type != ZOO_SESSION_EVENT)
        note(notes, "%s %s", event_name(type), path);
    else if (notes == zoo_get_context(zh))
        note(notes, "%s", state_name(state));
}

static void on_void(int rc, const void *notes) {
    note(notes, "%d", rc);
}

static void on_string(int rc, const char *value, const void *notes) {
    note(notes, "%d %s", rc, rc == ZOK ? value : "-");
}

static void on_stat(int rc, const struct Stat *stat, const void *notes) {
    note(notes, "%d version %d", rc, rc == ZOK ? stat->version : -1);
}

static void on_data(int rc, const char *value, int bytes, const struct Stat *stat, const void *notes) {
    if (rc == ZOK)
        note(notes, "0 %.*s version %d", bytes, value, stat->version);
    else
        note(notes, "%d -", rc);
}

static void on_string_stat(int rc, const char *value, const struct Stat *stat, const void *notes) {
    note(notes, "%d %s length %d", rc, rc == ZOK ? value : "-", rc == ZOK ? stat->dataLength : -1);
}

static void on_strings(int rc, const struct String_vector *names, const void *notes) {
    note(notes, "%d names %d", rc, rc == ZOK ? names->count : -1);
}

static void on_strings_stat(int rc, const struct String_vector *names, const struct Stat *stat, const void *notes) {
    note(notes, "%d names %d of %d", rc, rc == ZOK ? names->count : -1, rc == ZOK ? stat->numChildren : -1);
}

static void on_acl(int rc, struct ACL_vector *acl, struct Stat *stat, const void *notes) {
    note(notes, "%d entries %d aversion %d", rc, rc == ZOK ? acl->count : -1, rc == ZOK ? stat->aversion : -1);
}

/* ---- handles */

static zhandle_t *handles[16];
static int handle_count;

/* The handle's context is the Notes of its states, and of the watches set without a watcher. */
static struct Notes *notes_of(zhandle_t *zh) {
    return (struct Notes *)zoo_get_context(zh);
}

static const char *address(void) {
    static char text[32];
    snprintf(text, sizeof text, "127.0.0.1:%d", port);
    return text;
}

/* Opens a handle and does not wait for its connection. */
static zhandle_t *open_handle(const char *hosts, int timeout_ms, const clientid_t *id, int flags) {
    holds(handle_count < (int)(sizeof handles / sizeof *handles));
    zhandle_t *zh = zookeeper_init2(hosts, on_event, timeout_ms, id, new_notes(), flags, NULL);
    holds(zh != NULL);
    return handles[handle_count++] = zh;
}

static zhandle_t *connect_to(const char *hosts, int timeout_ms) {
    zhandle_t *zh = open_handle(hosts, timeout_ms, NULL, 0);
    next_is(notes_of(zh), "connected");
    return zh;
}

static zhandle_t *client(void) {
    return connect_to(address(), SESSION_MS);
}

static void close_handle(zhandle_t *zh) {
    for (int index = 0; index < handle_count; index++)
        if (handles[index] == zh)
            handles[index] = handles[--handle_count];
    same(zookeeper_close(zh), ZOK);
}

static int create_mode(zhandle_t *zh, const char *path, const char *data, int mode) {
    return zoo_create(zh, path, data, (int)strlen(data), &ZOO_OPEN_ACL_UNSAFE, mode, NULL, 0);
}

static void make(zhandle_t *zh, const char *path, const char *data) {
    same(create_mode(zh, path, data, ZOO_PERSISTENT), ZOK);
}

/* The path that the server gave the node. */
static const char *create_numbered(zhandle_t *zh, const char *prefix, int mode) {
    static char path[PATH_BYTES_MAX];
    same(zoo_create(zh, prefix, "", 0, &ZOO_OPEN_ACL_UNSAFE, mode, path, sizeof path), ZOK);
    return path;
}

static int set(zhandle_t *zh, const char *path, const char *data, int version) {
    return zoo_set(zh, path, data, (int)strlen(data), version);
}

/* The node's data as text. */
static const char *get(zhandle_t *zh, const char *path, struct Stat *stat) {
    static char text[1024];
    int bytes = sizeof text - 1;
    same(zoo_get(zh, path, 0, text, &bytes, stat), ZOK);
    text[bytes < 0 ? 0 : bytes] = 0;
    return text;
}

static int get_error(zhandle_t *zh, const char *path) {
    char byte;
    int bytes = 1;
    return zoo_get(zh, path, 0, &byte, &bytes, NULL);
}

/* Everything the server told this handle before now has reached its callbacks: they are called in one order. */
static void settle(zhandle_t *zh) {
    struct Notes *notes = new_notes();
    same(zoo_async(zh, "/", on_string, notes), ZOK);
    next_is(notes, "0 /");
}

/* Breaks every connection of this process to the server, as a network does. */
static void cut_connections(void) {
    int cut_count = 0;
    for (int fd = 3; fd < 256; fd++) {
        struct sockaddr_in peer;
        socklen_t bytes = sizeof peer;
        if (getpeername(fd, (struct sockaddr *)&peer, &bytes) == 0 && peer.sin_family == AF_INET
            && ntohs(peer.sin_port) == port)
            cut_count += shutdown(fd, SHUT_RDWR) == 0;
    }
    holds(cut_count > 0);
}

/* A port where nobody listens, kept from others as long as the test runs. */
static int dead_port(void) {
    struct sockaddr_in local = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof local;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    same(bind(fd, (struct sockaddr *)&local, bytes), 0);
    same(getsockname(fd, (struct sockaddr *)&local, &bytes), 0);
    return ntohs(local.sin_port);
}

/* ---- another process with a handle of its own; `told` is what it writes to us */

struct Other {
    pid_t pid;
    FILE *told;
};

/* Must come before the test's own handles: a process with threads does not fork well. */
static struct Other start_other(void (*body)(FILE *tell)) {
    int ends[2];
    same(handle_count, 0);
    same(pipe(ends), 0);
    struct Other other = {.pid = fork()};
    holds(other.pid >= 0);
    if (other.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ends[0]);
        FILE *tell = fdopen(ends[1], "w");
        setvbuf(tell, NULL, _IOLBF, 0);
        body(tell);
        for (;;)
            pause();
    }
    close(ends[1]);
    other.told = fdopen(ends[0], "r");
    return other;
}

static const char *heard(struct Other other) {
    static char text[PATH_BYTES_MAX];
    if (fgets(text, sizeof text, other.told) == NULL)
        return "(the other process ended)";
    text[strcspn(text, "\n")] = 0;
    return text;
}

/* The client goes without a word to the server; its socket is closed by the kernel. */
static void kill_other(struct Other other) {
    same(kill(other.pid, SIGKILL), 0);
    same(waitpid(other.pid, NULL, 0), other.pid);
}

static void tell_id(FILE *tell, zhandle_t *zh) {
    const clientid_t *id = zoo_client_id(zh);
    fprintf(tell, "%llx ", (unsigned long long)id->client_id);
    for (size_t index = 0; index < sizeof id->passwd; index++)
        fprintf(tell, "%02x", (unsigned char)id->passwd[index]);
    fputc('\n', tell);
}

static clientid_t heard_id(struct Other other) {
    clientid_t id;
    unsigned long long number;
    char password[2 * sizeof id.passwd + 1];
    const char *text = heard(other);
    if (sscanf(text, "%llx %32s", &number, password) != 2)
        fail(__LINE__, "the other process said \"%s\"", text);
    id.client_id = (int64_t)number;
    for (size_t index = 0; index < sizeof id.passwd; index++)
        sscanf(password + 2 * index, "%2hhx", (unsigned char *)&id.passwd[index]);
    return id;
}

/* ---- sessions */

static void a_handle_has_the_session_it_asked_for(void) {
    zhandle_t *zh = client();
    same(zoo_state(zh), ZOO_CONNECTED_STATE);
    same(zoo_recv_timeout(zh), SESSION_MS);
    same(is_unrecoverable(zh), 0);
    holds(zoo_client_id(zh)->client_id != 0);
    char zero[16] = {0};
    holds(memcmp(zoo_client_id(zh)->passwd, zero, sizeof zero) != 0);
}

static void a_session_timeout_is_kept_between_2_and_20_ticks(void) {
    same(zoo_recv_timeout(connect_to(address(), 100)), 2 * TICK_MS);
    same(zoo_recv_timeout(connect_to(address(), 60000)), 20 * TICK_MS);
}

static void a_handle_that_accepts_read_only_servers_can_write(void) {
    zhandle_t *zh = open_handle(address(), SESSION_MS, NULL, ZOO_READONLY);
    next_is(notes_of(zh), "connected");
    make(zh, "/read-only-flag", "");
}

static void a_dead_server_in_the_list_is_passed_over(void) {
    char hosts[64];
    snprintf(hosts, sizeof hosts, "127.0.0.1:%d,%s", dead_port(), address());
    make(connect_to(hosts, SESSION_MS), "/dead-server", "");
}

static void a_chroot_is_put_before_paths_and_taken_off_again(void) {
    zhandle_t *zh = client();
    make(zh, "/chroot", "");
    char hosts[64], path[PATH_BYTES_MAX];
    snprintf(hosts, sizeof hosts, "%s/chroot", address());
    zhandle_t *inside = connect_to(hosts, SESSION_MS);
    same(zoo_create(inside, "/n-", "x", 1, &ZOO_OPEN_ACL_UNSAFE, ZOO_SEQUENCE, path, sizeof path), ZOK);
    same_text(path, "/n-0000000000");
    settle(zh);
    same_text(get(zh, "/chroot/n-0000000000", NULL), "x");
    struct Notes *events = new_notes();
    same(zoo_wexists(inside, path, on_event, events, NULL), ZOK);
    same(set(zh, "/chroot/n-0000000000", "y", -1), ZOK);
    next_is(events, "changed /n-0000000000");
}

/* ---- nodes */

static void create_then_get_gives_the_data_and_a_fresh_stat(void) {
    zhandle_t *zh = client();
    char path[PATH_BYTES_MAX];
    struct Stat stat, exists;
    same(zoo_create(zh, "/nodes", "one", 3, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, path, sizeof path), ZOK);
    same_text(path, "/nodes");
    same_text(get(zh, "/nodes", &stat), "one");
    holds(stat.czxid > 0);
    same(stat.mzxid, stat.czxid);
    same(stat.pzxid, stat.czxid);
    holds(llabs(stat.ctime - now_ms(CLOCK_REALTIME)) < 60 * 1000);
    same(stat.mtime, stat.ctime);
    same(stat.version, 0);
    same(stat.cversion, 0);
    same(stat.aversion, 0);
    same(stat.ephemeralOwner, 0);
    same(stat.dataLength, 3);
    same(stat.numChildren, 0);
    same(zoo_exists(zh, "/nodes", 0, &exists), ZOK);
    same_stat(exists, stat);
}

static void create2_gives_the_path_and_the_stat_that_get_gives(void) {
    zhandle_t *zh = client();
    char path[PATH_BYTES_MAX];
    struct Stat created, read;
    same(zoo_create2(zh, "/create2-", "four", 4, &ZOO_OPEN_ACL_UNSAFE, ZOO_SEQUENCE, path, sizeof path, &created), ZOK);
    same(strncmp(path, "/create2-", 9), 0);
    same(strlen(path), strlen("/create2-") + 10);
    same_text(get(zh, path, &read), "four");
    same(created.dataLength, 4);
    same_stat(read, created);
}

static void set_counts_versions_and_keeps_what_create_wrote(void) {
    zhandle_t *zh = client();
    struct Stat created, first, second, read;
    make(zh, "/set", "one");
    same(zoo_exists(zh, "/set", 0, &created), ZOK);
    same(zoo_set2(zh, "/set", "four", 4, 0, &first), ZOK);
    same(first.version, 1);
    same(first.dataLength, 4);
    same(first.czxid, created.czxid);
    same(first.ctime, created.ctime);
    same(first.pzxid, created.czxid);
    holds(first.mzxid > created.czxid);
    holds(first.mtime >= created.mtime);
    same(zoo_set2(zh, "/set", "", 0, -1, &second), ZOK);
    same(second.version, 2);
    holds(second.mzxid > first.mzxid);
    same_text(get(zh, "/set", &read), "");
    same_stat(read, second);
}

static void null_data_is_not_empty_data(void) {
    zhandle_t *zh = client();
    char byte;
    int bytes = 1;
    struct Stat stat;
    same(zoo_create(zh, "/null", NULL, -1, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, NULL, 0), ZOK);
    same(zoo_get(zh, "/null", 0, &byte, &bytes, &stat), ZOK);
    same(bytes, -1);
    same(stat.dataLength, 0);
    same(zoo_set(zh, "/null", "", 0, -1), ZOK);
    bytes = 1;
    same(zoo_get(zh, "/null", 0, &byte, &bytes, &stat), ZOK);
    same(bytes, 0);
    same(zoo_set(zh, "/null", NULL, -1, -1), ZOK);
    bytes = 1;
    same(zoo_get(zh, "/null", 0, &byte, &bytes, &stat), ZOK);
    same(bytes, -1);
    same(stat.version, 2);
}

static void a_small_buffer_takes_the_start_and_the_stat_says_the_length(void) {
    zhandle_t *zh = client();
    char buffer[4];
    int bytes = sizeof buffer;
    struct Stat stat;
    make(zh, "/small-buffer", "0123456789");
    same(zoo_get(zh, "/small-buffer", 0, buffer, &bytes, &stat), ZOK);
    same(bytes, 4);
    same(memcmp(buffer, "0123", 4), 0);
    same(stat.dataLength, 10);
}

static void missing_nodes_are_refused_by_every_call(void) {
    zhandle_t *zh = client();
    struct Stat stat;
    struct String_vector names;
    struct ACL_vector acl;
    same(create_mode(zh, "/missing/child", "", ZOO_PERSISTENT), ZNONODE);
    same(get_error(zh, "/missing"), ZNONODE);
    same(set(zh, "/missing", "", -1), ZNONODE);
    same(zoo_exists(zh, "/missing", 0, &stat), ZNONODE);
    same(zoo_delete(zh, "/missing", -1), ZNONODE);
    same(zoo_get_children(zh, "/missing", 0, &names), ZNONODE);
    same(zoo_get_children2(zh, "/missing", 0, &names, &stat), ZNONODE);
    same(zoo_get_acl(zh, "/missing", &acl, &stat), ZNONODE);
    same(zoo_set_acl(zh, "/missing", -1, &ZOO_OPEN_ACL_UNSAFE), ZNONODE);
}

static void stale_versions_are_refused_and_change_nothing(void) {
    zhandle_t *zh = client();
    struct Stat stat;
    make(zh, "/stale", "one");
    same(set(zh, "/stale", "two", 1), ZBADVERSION);
    same(zoo_delete(zh, "/stale", 7), ZBADVERSION);
    same(zoo_set_acl(zh, "/stale", 1, &ZOO_READ_ACL_UNSAFE), ZBADVERSION);
    same_text(get(zh, "/stale", &stat), "one");
    same(stat.version, 0);
    same(stat.aversion, 0);
    same(stat.mzxid, stat.czxid);
    same(set(zh, "/stale", "two", 0), ZOK);
    same(zoo_delete(zh, "/stale", 0), ZBADVERSION);
    same(zoo_delete(zh, "/stale", 1), ZOK);
}

static void existing_nodes_and_parents_are_refused(void) {
    zhandle_t *zh = client();
    make(zh, "/parent", "");
    make(zh, "/parent/child", "");
    same(create_mode(zh, "/parent", "", ZOO_PERSISTENT), ZNODEEXISTS);
    same(create_mode(zh, "/", "", ZOO_PERSISTENT), ZNODEEXISTS);
    same(zoo_delete(zh, "/parent", -1), ZNOTEMPTY);
    same(zoo_delete(zh, "/parent", 5), ZBADVERSION);
    same(zoo_delete(zh, "/parent/child", 0), ZOK);
    same(zoo_delete(zh, "/parent", 0), ZOK);
    same(zoo_exists(zh, "/parent", 0, NULL), ZNONODE);
}

static void get_children_lists_and_the_parents_stat_counts(void) {
    zhandle_t *zh = client();
    struct String_vector names;
    struct Stat parent, child, after;
    make(zh, "/children", "data");
    make(zh, "/children/a", "");
    make(zh, "/children/b", "");
    same(zoo_get_children(zh, "/children", 0, &names), ZOK);
    same(names.count, 2);
    bool a_first = strcmp(names.data[0], "a") == 0;
    same_text(names.data[a_first ? 0 : 1], "a");
    same_text(names.data[a_first ? 1 : 0], "b");
    deallocate_String_vector(&names);
    same(zoo_exists(zh, "/children/b", 0, &child), ZOK);
    same(zoo_get_children2(zh, "/children", 0, &names, &parent), ZOK);
    same(names.count, 2);
    deallocate_String_vector(&names);
    same(parent.numChildren, 2);
    same(parent.cversion, 2);
    same(parent.version, 0);
    same(parent.dataLength, 4);
    same(parent.pzxid, child.czxid);
    same(parent.mzxid, parent.czxid);
    same(set(zh, "/children/a", "x", -1), ZOK);
    same(zoo_delete(zh, "/children/a", -1), ZOK);
    same(zoo_get_children2(zh, "/children", 0, &names, &after), ZOK);
    same(names.count, 1);
    same_text(names.data[0], "b");
    deallocate_String_vector(&names);
    same(after.numChildren, 1);
    same(after.cversion, 3);
    holds(after.pzxid > parent.pzxid);
    same(zoo_get_children2(zh, "/children/b", 0, &names, &after), ZOK);
    same(names.count, 0);
    same(after.numChildren, 0);
}

static void a_parent_of_many_children_lists_them_all(void) {
    enum { CHILD_COUNT = 2000 };
    zhandle_t *zh = client();
    struct Notes *answers = new_notes();
    struct String_vector names;
    char path[PATH_BYTES_MAX];
    bool seen[CHILD_COUNT] = {false};
    make(zh, "/many", "");
    for (int index = 0; index < CHILD_COUNT; index++) {
        snprintf(path, sizeof path, "/many/child-with-a-long-name-%d", index);
        same(zoo_acreate(zh, path, "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, on_string, answers), ZOK);
    }
    for (int index = 0; index < CHILD_COUNT; index++)
        same(strncmp(next_line(__LINE__, answers, "0 /many/..."), "0 /many/", 8), 0);
    same(zoo_get_children(zh, "/many", 0, &names), ZOK);
    same(names.count, CHILD_COUNT);
    for (int index = 0; index < CHILD_COUNT; index++) {
        int number = -1;
        same(sscanf(names.data[index], "child-with-a-long-name-%d", &number), 1);
        holds(number >= 0 && number < CHILD_COUNT && !seen[number]);
        seen[number] = true;
    }
    deallocate_String_vector(&names);
}

static void sequence_numbers_count_every_create_below_the_parent(void) {
    zhandle_t *zh = client();
    struct Stat stat;
    make(zh, "/sequence", "");
    same_text(create_numbered(zh, "/sequence/n-", ZOO_PERSISTENT_SEQUENTIAL), "/sequence/n-0000000000");
    make(zh, "/sequence/plain", "");
    same(zoo_delete(zh, "/sequence/plain", -1), ZOK);
    same_text(create_numbered(zh, "/sequence/n-", ZOO_EPHEMERAL_SEQUENTIAL), "/sequence/n-0000000002");
    same(zoo_exists(zh, "/sequence/n-0000000002", 0, &stat), ZOK);
    same(stat.ephemeralOwner, zoo_client_id(zh)->client_id);
    same_text(create_numbered(zh, "/sequence/", ZOO_PERSISTENT_SEQUENTIAL), "/sequence/0000000003");
    same_text(create_numbered(zh, "/sequence/..", ZOO_PERSISTENT_SEQUENTIAL), "/sequence/..0000000004");
}

static void an_ephemeral_has_an_owner_and_no_children(void) {
    zhandle_t *zh = client();
    struct Stat stat;
    same(create_mode(zh, "/ephemeral", "", ZOO_EPHEMERAL), ZOK);
    same(create_mode(zh, "/ephemeral/child", "", ZOO_PERSISTENT), ZNOCHILDRENFOREPHEMERALS);
    same(create_mode(zh, "/ephemeral/child", "", ZOO_EPHEMERAL), ZNOCHILDRENFOREPHEMERALS);
    same(zoo_exists(zh, "/ephemeral", 0, &stat), ZOK);
    same(stat.ephemeralOwner, zoo_client_id(zh)->client_id);
    same(stat.cversion, 0);
}

static void the_library_refuses_bad_paths_itself(void) {
    zhandle_t *zh = client();
    const char *bad[] = {"", "relative", "/bad/", "/bad//path", "/bad/./path", "/bad/..", "/bad/\x01"};
    for (size_t index = 0; index < sizeof bad / sizeof *bad; index++) {
        same(create_mode(zh, bad[index], "", ZOO_PERSISTENT), ZBADARGUMENTS);
        same(zoo_exists(zh, bad[index], 0, NULL), ZBADARGUMENTS);
    }
    same(get_error(zh, "/"), ZOK);
}

static void the_server_refuses_bad_paths_that_the_library_lets_through(void) {
    zhandle_t *zh = client();
    const char *bad[] = {"/bad-\x1f", "/bad-\x7f", "/bad-\xc2\x80", "/bad-\xee\x80\x80", "/bad-\xef\xbf\xb0"};
    for (size_t index = 0; index < sizeof bad / sizeof *bad; index++) {
        same(create_mode(zh, bad[index], "", ZOO_PERSISTENT), ZBADARGUMENTS);
        same(set(zh, bad[index], "", -1), ZBADARGUMENTS);
        same(get_error(zh, bad[index]), ZNONODE);
        same(zoo_exists(zh, bad[index], 0, NULL), ZNONODE);
        same(zoo_delete(zh, bad[index], -1), ZNONODE);
    }
    make(zh, "/good-\xc3\xbc\xe2\x82\xac", "");
    same_text(get(zh, "/good-\xc3\xbc\xe2\x82\xac", NULL), "");
}

static void the_servers_own_nodes_stay(void) {
    zhandle_t *zh = client();
    struct String_vector names;
    same(zoo_delete(zh, "/", -1), ZBADARGUMENTS);
    same(zoo_delete(zh, "/zookeeper", -1), ZBADARGUMENTS);
    same(zoo_delete(zh, "/zookeeper/quota", -1), ZBADARGUMENTS);
    same(zoo_get_children(zh, "/zookeeper", 0, &names), ZOK);
    same(names.count, 2);
    deallocate_String_vector(&names);
}

static void a_node_with_a_ttl_is_unimplemented_unless_switched_on(void) {
    zhandle_t *zh = client();
    int mode = ZOO_PERSISTENT_WITH_TTL;
    same(zoo_create_ttl(zh, "/ttl", "", 0, &ZOO_OPEN_ACL_UNSAFE, mode, 5000, NULL, 0), ZUNIMPLEMENTED);
    same(zoo_exists(zh, "/ttl", 0, NULL), ZNONODE);
}

/* The frame of a set: xid and type, the path, the data and the version, each string with its length. */
static int data_bytes_that_fill_a_frame(const char *path) {
    return FRAME_BYTES_MAX - 8 - 4 - (int)strlen(path) - 4 - 4;
}

static void a_request_of_exactly_jute_maxbuffer_is_served(void) {
    zhandle_t *zh = client();
    int bytes = data_bytes_that_fill_a_frame("/full"), read_bytes = bytes + 1;
    char *data = malloc(bytes), *read = malloc(read_bytes);
    struct Stat stat;
    for (int index = 0; index < bytes; index++)
        data[index] = (char)(index * 7 + index / 251);
    make(zh, "/full", "");
    same(zoo_set(zh, "/full", data, bytes, 0), ZOK);
    same(zoo_get(zh, "/full", 0, read, &read_bytes, &stat), ZOK);
    same(read_bytes, bytes);
    same(stat.dataLength, bytes);
    same(memcmp(data, read, bytes), 0);
    same(untaken(notes_of(zh)), 0);
}

static void one_byte_over_jute_maxbuffer_costs_the_connection_and_no_more(void) {
    zhandle_t *zh = client();
    int bytes = data_bytes_that_fill_a_frame("/over") + 1;
    int64_t id = zoo_client_id(zh)->client_id;
    struct Stat stat;
    make(zh, "/over", "kept");
    same(zoo_set(zh, "/over", calloc(1, bytes), bytes, -1), ZCONNECTIONLOSS);
    next_is(notes_of(zh), "connecting");
    next_is(notes_of(zh), "connected");
    same(zoo_client_id(zh)->client_id, id);
    same_text(get(zh, "/over", &stat), "kept");
    same(stat.version, 0);
}

/* ---- watches */

static void a_data_watch_fires_once_for_a_change(void) {
    zhandle_t *zh = client(), *other = client();
    struct Notes *events = new_notes();
    char byte;
    int bytes = 1;
    make(zh, "/watch-data", "0");
    same(zoo_wget(zh, "/watch-data", on_event, events, &byte, &bytes, NULL), ZOK);
    make(zh, "/watch-data/child", "");
    settle(zh);
    same(untaken(events), 0);
    settle(other);
    same(set(other, "/watch-data", "1", -1), ZOK);
    next_is(events, "changed /watch-data");
    same(set(zh, "/watch-data", "2", -1), ZOK);
    settle(zh);
    same(untaken(events), 0);
}

static void an_exists_watch_sees_the_creation_and_the_deletion(void) {
    zhandle_t *zh = client();
    struct Notes *events = new_notes();
    same(zoo_wexists(zh, "/watch-exists", on_event, events, NULL), ZNONODE);
    make(zh, "/watch-exists", "");
    next_is(events, "created /watch-exists");
    same(zoo_wexists(zh, "/watch-exists", on_event, events, NULL), ZOK);
    same(set(zh, "/watch-exists", "1", -1), ZOK);
    next_is(events, "changed /watch-exists");
    same(zoo_wexists(zh, "/watch-exists", on_event, events, NULL), ZOK);
    same(zoo_delete(zh, "/watch-exists", -1), ZOK);
    next_is(events, "deleted /watch-exists");
    make(zh, "/watch-exists", "");
    settle(zh);
    same(untaken(events), 0);
}

static void a_child_watch_sees_children_come_and_go_and_the_parent_go(void) {
    zhandle_t *zh = client();
    struct Notes *events = new_notes();
    struct String_vector names;
    struct Stat stat;
    make(zh, "/watch-child", "");
    same(zoo_wget_children(zh, "/watch-child", on_event, events, &names), ZOK);
    same(set(zh, "/watch-child", "1", -1), ZOK);
    make(zh, "/watch-child/a", "");
    next_is(events, "child /watch-child");
    same(zoo_wget_children2(zh, "/watch-child", on_event, events, &names, &stat), ZOK);
    deallocate_String_vector(&names);
    same(set(zh, "/watch-child/a", "1", -1), ZOK);
    same(zoo_delete(zh, "/watch-child/a", -1), ZOK);
    next_is(events, "child /watch-child");
    same(zoo_wget_children(zh, "/watch-child", on_event, events, &names), ZOK);
    same(zoo_delete(zh, "/watch-child", -1), ZOK);
    next_is(events, "deleted /watch-child");
    settle(zh);
    same(untaken(events), 0);
}

static void a_deletion_tells_each_watcher_once(void) {
    zhandle_t *zh = client();
    struct Notes *exists = new_notes(), *data = new_notes(), *child = new_notes();
    struct String_vector names;
    char byte;
    int bytes = 1;
    make(zh, "/watch-all", "0");
    same(zoo_wexists(zh, "/watch-all", on_event, exists, NULL), ZOK);
    same(zoo_wget(zh, "/watch-all", on_event, data, &byte, &bytes, NULL), ZOK);
    same(zoo_wget_children(zh, "/watch-all", on_event, child, &names), ZOK);
    same(zoo_delete(zh, "/watch-all", -1), ZOK);
    settle(zh);
    next_is(exists, "deleted /watch-all");
    next_is(data, "deleted /watch-all");
    next_is(child, "deleted /watch-all");
    same(untaken(exists) + untaken(data) + untaken(child), 0);
}

static void the_handles_own_watcher_hears_flagged_reads(void) {
    zhandle_t *zh = client();
    struct String_vector names;
    char byte;
    int bytes = 1;
    same(zoo_exists(zh, "/watch-flag", 1, NULL), ZNONODE);
    make(zh, "/watch-flag", "0");
    next_is(notes_of(zh), "created /watch-flag");
    same(zoo_get(zh, "/watch-flag", 1, &byte, &bytes, NULL), ZOK);
    same(set(zh, "/watch-flag", "1", -1), ZOK);
    next_is(notes_of(zh), "changed /watch-flag");
    same(zoo_get_children(zh, "/watch-flag", 1, &names), ZOK);
    make(zh, "/watch-flag/a", "");
    next_is(notes_of(zh), "child /watch-flag");
}

static void a_failed_read_leaves_no_watch(void) {
    zhandle_t *zh = client();
    struct Notes *events = new_notes();
    struct String_vector names;
    char byte;
    int bytes = 1;
    same(zoo_wget(zh, "/watch-none", on_event, events, &byte, &bytes, NULL), ZNONODE);
    same(zoo_wget_children(zh, "/watch-none", on_event, events, &names), ZNONODE);
    make(zh, "/watch-none", "");
    make(zh, "/watch-none/child", "");
    settle(zh);
    same(untaken(events), 0);
}

/* ---- multi */

static void a_multi_applies_all_of_its_operations(void) {
    zhandle_t *zh = client();
    enum { COUNT = 7 };
    zoo_op_t ops[COUNT];
    zoo_op_result_t results[COUNT];
    char created[PATH_BYTES_MAX], numbered[PATH_BYTES_MAX], kept[PATH_BYTES_MAX];
    struct Stat changed, stat;
    make(zh, "/multi", "");
    zoo_create_op_init(&ops[0], "/multi/a", "1", 1, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, created, sizeof created);
    zoo_set_op_init(&ops[1], "/multi/a", "22", 2, 0, &changed);
    zoo_check_op_init(&ops[2], "/multi/a", 1);
    zoo_create_op_init(&ops[3], "/multi/n-", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL_SEQUENTIAL, numbered,
                       sizeof numbered);
    zoo_delete_op_init(&ops[4], "/multi/a", 1);
    zoo_create_op_init(&ops[5], "/multi/b", NULL, -1, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, kept, sizeof kept);
    zoo_set_op_init(&ops[6], "/multi", "x", 1, -1, NULL);
    same(zoo_multi(zh, COUNT, ops, results), ZOK);
    for (int index = 0; index < COUNT; index++)
        same(results[index].err, ZOK);
    same_text(created, "/multi/a");
    same_text(results[0].value, "/multi/a");
    same(changed.version, 1);
    same(changed.dataLength, 2);
    same(changed.mzxid, changed.czxid);
    same_text(numbered, "/multi/n-0000000001");
    same_text(kept, "/multi/b");
    same(zoo_exists(zh, "/multi/a", 0, NULL), ZNONODE);
    same(zoo_exists(zh, numbered, 0, &stat), ZOK);
    same(stat.czxid, changed.czxid);
    same(stat.ephemeralOwner, zoo_client_id(zh)->client_id);
    same(zoo_exists(zh, "/multi", 0, &stat), ZOK);
    same(stat.mzxid, changed.czxid);
    same(stat.pzxid, changed.czxid);
    same(stat.cversion, 4);
    same(stat.numChildren, 2);
}

static void a_failing_multi_applies_none_and_names_the_culprit(void) {
    zhandle_t *zh = client();
    enum { COUNT = 4 };
    zoo_op_t ops[COUNT];
    zoo_op_result_t results[COUNT];
    struct Stat before, changed, after;
    make(zh, "/multi-fails", "");
    same(zoo_exists(zh, "/multi-fails", 0, &before), ZOK);
    zoo_create_op_init(&ops[0], "/multi-fails/a", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, NULL, 0);
    zoo_set_op_init(&ops[1], "/multi-fails", "x", 1, 0, &changed);
    zoo_check_op_init(&ops[2], "/multi-fails", 9);
    zoo_delete_op_init(&ops[3], "/multi-fails/a", -1);
    same(zoo_multi(zh, COUNT, ops, results), ZBADVERSION);
    same(results[0].err, ZOK);
    same(results[1].err, ZOK);
    same(results[2].err, ZBADVERSION);
    same(results[3].err, ZRUNTIMEINCONSISTENCY);
    same(zoo_exists(zh, "/multi-fails", 0, &after), ZOK);
    same_stat(after, before);
}

static int multi_of_one(zhandle_t *zh, zoo_op_t op) {
    zoo_op_result_t result;
    int rc = zoo_multi(zh, 1, &op, &result);
    same(result.err, rc);
    return rc;
}

static void each_operation_of_a_multi_has_the_error_of_its_call(void) {
    zhandle_t *zh = client();
    zoo_op_t op;
    make(zh, "/multi-errors", "");
    make(zh, "/multi-errors/child", "");
    same(create_mode(zh, "/multi-errors/ephemeral", "", ZOO_EPHEMERAL), ZOK);
    zoo_check_op_init(&op, "/multi-errors", 0);
    same(multi_of_one(zh, op), ZOK);
    zoo_check_op_init(&op, "/multi-missing", -1);
    same(multi_of_one(zh, op), ZNONODE);
    zoo_create_op_init(&op, "/multi-errors", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, NULL, 0);
    same(multi_of_one(zh, op), ZNODEEXISTS);
    zoo_create_op_init(&op, "/multi-missing/child", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, NULL, 0);
    same(multi_of_one(zh, op), ZNONODE);
    zoo_create_op_init(&op, "/multi-errors/ephemeral/child", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, NULL, 0);
    same(multi_of_one(zh, op), ZNOCHILDRENFOREPHEMERALS);
    zoo_create_op_init(&op, "/multi-acl", "", 0, &ZOO_CREATOR_ALL_ACL, ZOO_PERSISTENT, NULL, 0);
    same(multi_of_one(zh, op), ZINVALIDACL);
    zoo_delete_op_init(&op, "/multi-errors", -1);
    same(multi_of_one(zh, op), ZNOTEMPTY);
    zoo_delete_op_init(&op, "/multi-errors/child", 3);
    same(multi_of_one(zh, op), ZBADVERSION);
    zoo_set_op_init(&op, "/multi-missing", "", 0, -1, NULL);
    same(multi_of_one(zh, op), ZNONODE);
    same(zoo_multi(zh, 0, NULL, NULL), ZOK);
}

static void a_multi_fires_the_watches_of_all_its_changes(void) {
    zhandle_t *zh = client();
    struct Notes *events = new_notes();
    struct String_vector names;
    zoo_op_t ops[2];
    zoo_op_result_t results[2];
    make(zh, "/multi-watch", "");
    same(zoo_wexists(zh, "/multi-watch/a", on_event, events, NULL), ZNONODE);
    same(zoo_wget_children(zh, "/multi-watch", on_event, events, &names), ZOK);
    zoo_create_op_init(&ops[0], "/multi-watch/a", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, NULL, 0);
    zoo_set_op_init(&ops[1], "/multi-watch", "x", 1, -1, NULL);
    same(zoo_multi(zh, 2, ops, results), ZOK);
    next_is(events, "created /multi-watch/a");
    next_is(events, "child /multi-watch");
}

/* ---- asynchronous calls */

static void pipelined_creates_are_answered_in_order(void) {
    enum { COUNT = 1000 };
    zhandle_t *zh = client();
    struct Notes *answers = new_notes();
    struct Stat stat;
    make(zh, "/pipeline", "");
    for (int index = 0; index < COUNT; index++)
        same(zoo_acreate(zh, "/pipeline/n-", "data", 4, &ZOO_OPEN_ACL_UNSAFE, ZOO_SEQUENCE, on_string, answers), ZOK);
    for (int index = 0; index < COUNT; index++) {
        char expected[PATH_BYTES_MAX];
        snprintf(expected, sizeof expected, "0 /pipeline/n-%010d", index);
        next_is(answers, expected);
    }
    same(zoo_exists(zh, "/pipeline", 0, &stat), ZOK);
    same(stat.numChildren, COUNT);
    same(stat.cversion, COUNT);
}

static void pipelined_reads_see_the_write_before_them(void) {
    enum { COUNT = 500 };
    zhandle_t *zh = client();
    struct Notes *answers = new_notes();
    char text[32];
    make(zh, "/read-write", "start");
    for (int index = 0; index < COUNT; index++) {
        snprintf(text, sizeof text, "value-%d", index);
        same(zoo_aset(zh, "/read-write", text, (int)strlen(text), index, on_stat, answers), ZOK);
        same(zoo_aget(zh, "/read-write", 0, on_data, answers), ZOK);
    }
    for (int index = 0; index < COUNT; index++) {
        snprintf(text, sizeof text, "0 version %d", index + 1);
        next_is(answers, text);
        snprintf(text, sizeof text, "0 value-%d version %d", index, index + 1);
        next_is(answers, text);
    }
}

static void every_asynchronous_call_is_answered_in_order(void) {
    zhandle_t *zh = client();
    struct Notes *answers = new_notes();
    struct ACL_vector *open = &ZOO_OPEN_ACL_UNSAFE;
    zoo_op_t op;
    zoo_op_result_t result;
    zoo_set_op_init(&op, "/async", "z", 1, -1, NULL);
    same(zoo_acreate(zh, "/async", "a", 1, open, ZOO_PERSISTENT, on_string, answers), ZOK);
    same(zoo_acreate2(zh, "/async/b", "bb", 2, open, ZOO_EPHEMERAL, on_string_stat, answers), ZOK);
    same(zoo_aexists(zh, "/async", 0, on_stat, answers), ZOK);
    same(zoo_aget(zh, "/async/b", 0, on_data, answers), ZOK);
    same(zoo_aset(zh, "/async", "c", 1, 0, on_stat, answers), ZOK);
    same(zoo_aget_children(zh, "/async", 0, on_strings, answers), ZOK);
    same(zoo_aget_children2(zh, "/async", 0, on_strings_stat, answers), ZOK);
    same(zoo_aset_acl(zh, "/async", 0, open, on_void, answers), ZOK);
    same(zoo_aget_acl(zh, "/async", on_acl, answers), ZOK);
    same(zoo_amulti(zh, 1, &op, &result, on_void, answers), ZOK);
    same(zoo_async(zh, "/async", on_string, answers), ZOK);
    same(zoo_adelete(zh, "/async/b", 0, on_void, answers), ZOK);
    same(zoo_adelete(zh, "/async", 2, on_void, answers), ZOK);
    same(zoo_aexists(zh, "/async", 0, on_stat, answers), ZOK);
    next_is(answers, "0 /async");
    next_is(answers, "0 /async/b length 2");
    next_is(answers, "0 version 0");
    next_is(answers, "0 bb version 0");
    next_is(answers, "0 version 1");
    next_is(answers, "0 names 1");
    next_is(answers, "0 names 1 of 1");
    next_is(answers, "0");
    next_is(answers, "0 entries 1 aversion 1");
    next_is(answers, "0");
    next_is(answers, "0 /async");
    next_is(answers, "0");
    next_is(answers, "0");
    next_is(answers, "-101 version -1");
}

static void asynchronous_errors_come_in_their_place(void) {
    zhandle_t *zh = client();
    struct Notes *answers = new_notes();
    make(zh, "/async-errors", "");
    same(zoo_acreate(zh, "/async-errors", "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, on_string, answers), ZOK);
    same(zoo_acreate(zh, "/async-errors/a", "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, on_string, answers), ZOK);
    same(zoo_adelete(zh, "/async-errors", -1, on_void, answers), ZOK);
    same(zoo_aset(zh, "/async-errors", "", 0, 4, on_stat, answers), ZOK);
    same(zoo_aget(zh, "/async-missing", 0, on_data, answers), ZOK);
    same(zoo_aget_children(zh, "/async-missing", 0, on_strings, answers), ZOK);
    next_is(answers, "-110 -");
    next_is(answers, "0 /async-errors/a");
    next_is(answers, "-111");
    next_is(answers, "-103 version -1");
    next_is(answers, "-101 -");
    next_is(answers, "-101 names -1");
}

enum { THREAD_COUNT = 4, INCREMENT_COUNT = 50 };

static void *increment(void *zh) {
    for (int done = 0; done < INCREMENT_COUNT;) {
        char text[16];
        int bytes = sizeof text - 1;
        struct Stat stat;
        same(zoo_get(zh, "/counter", 0, text, &bytes, &stat), ZOK);
        text[bytes] = 0;
        snprintf(text, sizeof text, "%d", atoi(text) + 1);
        int rc = set(zh, "/counter", text, stat.version);
        if (rc != ZBADVERSION)
            same(rc, ZOK);
        done += rc == ZOK;
    }
    return NULL;
}

static void threads_that_share_a_handle_lose_no_update(void) {
    zhandle_t *zh = client();
    pthread_t threads[THREAD_COUNT];
    struct Stat stat;
    make(zh, "/counter", "0");
    for (int index = 0; index < THREAD_COUNT; index++)
        same(pthread_create(&threads[index], NULL, increment, zh), 0);
    for (int index = 0; index < THREAD_COUNT; index++)
        same(pthread_join(threads[index], NULL), 0);
    same(atoi(get(zh, "/counter", &stat)), THREAD_COUNT * INCREMENT_COUNT);
    same(stat.version, THREAD_COUNT * INCREMENT_COUNT);
}

static void a_sync_shows_what_others_wrote(void) {
    zhandle_t *writer = client(), *reader = client();
    for (int round = 0; round < 50; round++) {
        char path[PATH_BYTES_MAX];
        snprintf(path, sizeof path, "/synced-%d", round);
        make(writer, path, "");
        settle(reader);
        same(zoo_exists(reader, path, 0, NULL), ZOK);
    }
}

/* ---- access control */

static char alice_id[] = "alice:aYXlLOpEooaV1cRAvUL1fp9Qt7E="; /* of alice:secret */
static char digest_scheme[] = "digest", world_scheme[] = "world", anyone_id[] = "anyone";

static void log_in(zhandle_t *zh, const char *name_and_password) {
    struct Notes *answers = new_notes();
    same(zoo_add_auth(zh, "digest", name_and_password, (int)strlen(name_and_password), on_void, answers), ZOK);
    next_is(answers, "0");
}

static void acls_are_read_and_set(void) {
    zhandle_t *zh = client();
    struct ACL_vector acl;
    struct Stat stat;
    make(zh, "/acl", "");
    same(zoo_get_acl(zh, "/acl", &acl, &stat), ZOK);
    same(acl.count, 1);
    same(acl.data[0].perms, ZOO_PERM_ALL);
    same_text(acl.data[0].id.scheme, "world");
    same_text(acl.data[0].id.id, "anyone");
    deallocate_ACL_vector(&acl);
    same(stat.aversion, 0);
    struct ACL entries[] = {{ZOO_PERM_READ | ZOO_PERM_ADMIN, {world_scheme, anyone_id}},
                            {ZOO_PERM_ALL, {digest_scheme, alice_id}}};
    struct ACL_vector two = {2, entries};
    same(zoo_set_acl(zh, "/acl", 0, &two), ZOK);
    same(zoo_get_acl(zh, "/acl", &acl, &stat), ZOK);
    same(stat.aversion, 1);
    same(stat.version, 0);
    same(stat.mzxid, stat.czxid);
    same(acl.count, 2);
    same(acl.data[0].perms, ZOO_PERM_READ | ZOO_PERM_ADMIN);
    same_text(acl.data[0].id.scheme, "world");
    same_text(acl.data[1].id.scheme, "digest");
    same_text(acl.data[1].id.id, alice_id);
    deallocate_ACL_vector(&acl);
    same(zoo_set_acl(zh, "/acl", 0, &two), ZBADVERSION);
    same(set(zh, "/acl", "x", -1), ZNOAUTH);
}

static void a_digest_keeps_others_out(void) {
    zhandle_t *owner = client(), *other = client();
    struct Stat stat;
    struct String_vector names;
    struct ACL_vector acl;
    log_in(owner, "alice:secret");
    same(zoo_create(owner, "/digest", "mine", 4, &ZOO_CREATOR_ALL_ACL, ZOO_PERSISTENT, NULL, 0), ZOK);
    same(zoo_get_acl(owner, "/digest", &acl, &stat), ZOK);
    same(acl.count, 1);
    same_text(acl.data[0].id.scheme, "digest");
    same_text(acl.data[0].id.id, alice_id);
    deallocate_ACL_vector(&acl);
    settle(other);
    same(get_error(other, "/digest"), ZNOAUTH);
    same(set(other, "/digest", "x", -1), ZNOAUTH);
    same(zoo_get_children(other, "/digest", 0, &names), ZNOAUTH);
    same(zoo_get_children2(other, "/digest", 0, &names, &stat), ZNOAUTH);
    same(create_mode(other, "/digest/child", "", ZOO_PERSISTENT), ZNOAUTH);
    same(zoo_get_acl(other, "/digest", &acl, &stat), ZNOAUTH);
    same(zoo_set_acl(other, "/digest", -1, &ZOO_OPEN_ACL_UNSAFE), ZNOAUTH);
    same(zoo_exists(other, "/digest", 0, &stat), ZNOAUTH);
    log_in(other, "alice:wrong");
    same(get_error(other, "/digest"), ZNOAUTH);
    log_in(other, "alice:secret");
    same_text(get(other, "/digest", NULL), "mine");
    make(other, "/digest/child", "");
    zoo_op_t op;
    zoo_set_op_init(&op, "/digest", "x", 1, -1, NULL);
    same(multi_of_one(client(), op), ZNOAUTH);
    zoo_delete_op_init(&op, "/digest/child", -1);
    same(multi_of_one(client(), op), ZNOAUTH);
}

static void a_digest_is_shown_only_to_those_who_may_change_it(void) {
    zhandle_t *owner = client(), *other = client();
    struct ACL entries[] = {{ZOO_PERM_READ, {world_scheme, anyone_id}}, {ZOO_PERM_ALL, {digest_scheme, alice_id}}};
    struct ACL_vector two = {2, entries}, acl;
    struct Stat stat;
    same(zoo_create(owner, "/hidden", "", 0, &two, ZOO_PERSISTENT, NULL, 0), ZOK);
    settle(other);
    same(zoo_get_acl(other, "/hidden", &acl, &stat), ZOK);
    same_text(acl.data[1].id.id, "alice:x");
    deallocate_ACL_vector(&acl);
    log_in(other, "alice:secret");
    same(zoo_get_acl(other, "/hidden", &acl, &stat), ZOK);
    same_text(acl.data[1].id.id, alice_id);
    deallocate_ACL_vector(&acl);
}

static void acls_without_sense_are_refused(void) {
    zhandle_t *zh = client();
    char scheme[] = "no-such-scheme", no_digest[] = "no-colon";
    struct ACL unknown[] = {{ZOO_PERM_ALL, {scheme, anyone_id}}};
    struct ACL malformed[] = {{ZOO_PERM_ALL, {digest_scheme, no_digest}}};
    struct ACL_vector vectors[] = {{0, NULL}, {1, unknown}, {1, malformed}, ZOO_CREATOR_ALL_ACL};
    make(zh, "/acl-refused", "");
    for (size_t index = 0; index < sizeof vectors / sizeof *vectors; index++) {
        same(zoo_create(zh, "/acl-new", "", 0, &vectors[index], ZOO_PERSISTENT, NULL, 0), ZINVALIDACL);
        same(zoo_set_acl(zh, "/acl-refused", -1, &vectors[index]), ZINVALIDACL);
    }
    same(zoo_exists(zh, "/acl-new", 0, NULL), ZNONODE);
}

static void an_unknown_auth_scheme_ends_the_handle(void) {
    zhandle_t *zh = client();
    struct Notes *answers = new_notes();
    same(zoo_add_auth(zh, "no-such-scheme", "x", 1, on_void, answers), ZOK);
    next_is(answers, "-115");
    await(notes_of(zh), "auth failed");
    same(zoo_state(zh), ZOO_AUTH_FAILED_STATE);
    same(is_unrecoverable(zh), ZINVALIDSTATE);
    same(zoo_exists(zh, "/", 0, NULL), ZINVALIDSTATE);
}

/* ---- connections that break, sessions that end */

static void ephemerals_go_with_zookeeper_close(void) {
    zhandle_t *zh = client(), *other = client();
    struct Notes *events = new_notes();
    same(create_mode(zh, "/closed", "", ZOO_EPHEMERAL), ZOK);
    settle(other);
    same(zoo_wexists(other, "/closed", on_event, events, NULL), ZOK);
    close_handle(zh);
    next_is(events, "deleted /closed");
    same(zoo_exists(other, "/closed", 0, NULL), ZNONODE);
}

static void a_cut_connection_keeps_session_ephemerals_watches_and_auth(void) {
    zhandle_t *zh = client();
    struct Notes *data = new_notes(), *exists = new_notes(), *child = new_notes();
    struct String_vector names;
    struct Stat stat;
    char byte;
    int bytes = 1;
    int64_t id = zoo_client_id(zh)->client_id;
    log_in(zh, "alice:secret");
    same(zoo_create(zh, "/cut", "x", 1, &ZOO_CREATOR_ALL_ACL, ZOO_PERSISTENT, NULL, 0), ZOK);
    same(zoo_create(zh, "/cut/mine", "", 0, &ZOO_CREATOR_ALL_ACL, ZOO_EPHEMERAL, NULL, 0), ZOK);
    same(zoo_wget(zh, "/cut", on_event, data, &byte, &bytes, NULL), ZOK);
    same(zoo_wget_children(zh, "/cut", on_event, child, &names), ZOK);
    deallocate_String_vector(&names);
    same(zoo_wexists(zh, "/cut/later", on_event, exists, NULL), ZNONODE);
    cut_connections();
    next_is(notes_of(zh), "connecting");
    next_is(notes_of(zh), "connected");
    same(zoo_client_id(zh)->client_id, id);
    same(zoo_exists(zh, "/cut/mine", 0, &stat), ZOK);
    same(stat.ephemeralOwner, id);
    same_text(get(zh, "/cut", NULL), "x");
    settle(zh);
    same(untaken(data) + untaken(exists) + untaken(child), 0);
    same(set(zh, "/cut", "y", -1), ZOK);
    next_is(data, "changed /cut");
    make(zh, "/cut/later", "");
    next_is(exists, "created /cut/later");
    next_is(child, "child /cut");
    settle(zh);
    same(untaken(data) + untaken(exists) + untaken(child), 0);
}

static void thousands_of_watches_survive_a_cut_connection(void) {
    enum { COUNT = 3000 };
    zhandle_t *zh = client();
    struct Notes *answers = new_notes(), *events = new_notes();
    char path[PATH_BYTES_MAX];
    make(zh, "/watches", "");
    for (int index = 0; index < COUNT; index++) {
        snprintf(path, sizeof path, "/watches/n-%d", index);
        same(zoo_awexists(zh, path, on_event, events, on_stat, answers), ZOK);
    }
    for (int index = 0; index < COUNT; index++)
        next_is(answers, "-101 version -1");
    cut_connections();
    next_is(notes_of(zh), "connecting");
    next_is(notes_of(zh), "connected");
    for (int index = 0; index < COUNT; index++) {
        snprintf(path, sizeof path, "/watches/n-%d", index);
        same(zoo_acreate(zh, path, "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT, on_string, answers), ZOK);
    }
    for (int index = 0; index < COUNT; index++) {
        snprintf(path, sizeof path, "created /watches/n-%d", index);
        next_is(events, path);
    }
}

static void own_an_ephemeral(FILE *tell) {
    zhandle_t *zh = client();
    same(create_mode(zh, "/moves", "", ZOO_EPHEMERAL), ZOK);
    tell_id(tell, zh);
}

static void a_session_is_taken_over_by_id_and_password(void) {
    struct Other other = start_other(own_an_ephemeral);
    clientid_t id = heard_id(other);
    kill_other(other);
    zhandle_t *zh = open_handle(address(), SESSION_MS, &id, 0);
    next_is(notes_of(zh), "connected");
    struct Stat stat;
    same(zoo_client_id(zh)->client_id, id.client_id);
    same(memcmp(zoo_client_id(zh)->passwd, id.passwd, sizeof id.passwd), 0);
    same(zoo_exists(zh, "/moves", 0, &stat), ZOK);
    same(stat.ephemeralOwner, id.client_id);
    close_handle(zh);
    zhandle_t *late = client();
    settle(late);
    same(zoo_exists(late, "/moves", 0, NULL), ZNONODE);
}

/* The server refuses the session; the library says so, and the handle is of no more use. */
static void is_refused(clientid_t id) {
    zhandle_t *zh = open_handle(address(), SESSION_MS, &id, 0);
    next_is(notes_of(zh), "expired");
    same(zoo_state(zh), ZOO_EXPIRED_SESSION_STATE);
    same(is_unrecoverable(zh), ZINVALIDSTATE);
    same(zoo_exists(zh, "/", 0, NULL), ZINVALIDSTATE);
}

static void a_wrong_password_or_id_is_an_expired_session(void) {
    zhandle_t *zh = client();
    clientid_t wrong_password = *zoo_client_id(zh), wrong_id = wrong_password;
    wrong_password.passwd[0] ^= 1;
    is_refused(wrong_password);
    wrong_id.client_id ^= 1;
    is_refused(wrong_id);
    same(zoo_exists(zh, "/", 0, NULL), ZOK);
}

static void a_closed_session_cannot_be_taken_over(void) {
    zhandle_t *zh = client();
    clientid_t id = *zoo_client_id(zh);
    close_handle(zh);
    is_refused(id);
}

static void own_a_short_ephemeral(FILE *tell) {
    zhandle_t *zh = connect_to(address(), SHORT_SESSION_MS);
    same(zoo_recv_timeout(zh), SHORT_SESSION_MS);
    same(create_mode(zh, "/expires", "", ZOO_EPHEMERAL), ZOK);
    tell_id(tell, zh);
}

static void a_session_left_alone_expires_after_its_timeout(void) {
    long long before_ms = now_ms(CLOCK_MONOTONIC);
    struct Other other = start_other(own_a_short_ephemeral);
    clientid_t id = heard_id(other);
    kill_other(other);
    zhandle_t *zh = client();
    struct Notes *events = new_notes();
    struct Stat stat;
    same(zoo_wexists(zh, "/expires", on_event, events, &stat), ZOK);
    same(stat.ephemeralOwner, id.client_id);
    next_is(events, "deleted /expires");
    holds(now_ms(CLOCK_MONOTONIC) - before_ms >= SHORT_SESSION_MS);
    is_refused(id);
}

static void lose_a_session(FILE *tell) {
    zhandle_t *zh = connect_to(address(), SHORT_SESSION_MS);
    same(create_mode(zh, "/pauses", "", ZOO_EPHEMERAL), ZOK);
    fprintf(tell, "ready\n");
    await(notes_of(zh), "expired");
    fprintf(tell, "expired, then %d\n", zoo_exists(zh, "/", 0, NULL));
}

static void a_client_that_paused_too_long_learns_of_its_expiry(void) {
    struct Other other = start_other(lose_a_session);
    same_text(heard(other), "ready");
    same(kill(other.pid, SIGSTOP), 0);
    zhandle_t *zh = client();
    struct Notes *events = new_notes();
    same(zoo_wexists(zh, "/pauses", on_event, events, NULL), ZOK);
    next_is(events, "deleted /pauses");
    same(kill(other.pid, SIGCONT), 0);
    same_text(heard(other), "expired, then -9");
    kill_other(other);
}

/* ---- the server ends and comes back, while the same handle waits */

static void survive(int signal_number, const char *base) {
    zhandle_t *zh = client();
    struct Notes *data = new_notes(), *child = new_notes();
    struct String_vector names;
    struct Stat before, after;
    char prefix[PATH_BYTES_MAX], mine[PATH_BYTES_MAX], next[PATH_BYTES_MAX], expected[PATH_BYTES_MAX], byte;
    int bytes = 1;
    int64_t id = zoo_client_id(zh)->client_id;
    snprintf(prefix, sizeof prefix, "%s/n-", base);
    make(zh, base, "kept");
    same(zoo_create(zh, prefix, "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL_SEQUENTIAL, mine, sizeof mine), ZOK);
    same(zoo_wget(zh, base, on_event, data, &byte, &bytes, &before), ZOK);
    same(zoo_wget_children(zh, base, on_event, child, &names), ZOK);
    deallocate_String_vector(&names);
    same(kill(server, signal_number), 0);
    next_is(notes_of(zh), "connecting");
    next_is(notes_of(zh), "connected");
    same(zoo_client_id(zh)->client_id, id);
    same_text(get(zh, base, &after), "kept");
    same_stat(after, before);
    same(zoo_exists(zh, mine, 0, &after), ZOK);
    same(after.ephemeralOwner, id);
    settle(zh);
    same(untaken(data) + untaken(child), 0);
    same(zoo_create2(zh, prefix, "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_SEQUENCE, next, sizeof next, &after), ZOK);
    same_text(next + strlen(base), "/n-0000000001");
    holds(after.czxid > before.pzxid);
    same(set(zh, base, "changed", before.version), ZOK);
    snprintf(expected, sizeof expected, "child %s", base);
    next_is(child, expected);
    snprintf(expected, sizeof expected, "changed %s", base);
    next_is(data, expected);
    zhandle_t *other = client();
    close_handle(zh);
    settle(other);
    same(zoo_exists(other, mine, 0, NULL), ZNONODE);
}

static void a_handle_survives_a_kill_of_the_server(void) {
    survive(SIGKILL, "/killed");
}

static void a_handle_survives_a_clean_restart_of_the_server(void) {
    survive(SIGTERM, "/restarted");
}

static void what_was_acknowledged_before_a_kill_is_there_after_it(void) {
    enum { COUNT = 4000, ANSWERED_BEFORE = 100 };
    zhandle_t *zh = client();
    struct Notes *answers = new_notes();
    int made_count = 0;
    make(zh, "/acknowledged", "");
    for (int index = 0; index < COUNT; index++)
        same(zoo_acreate(zh, "/acknowledged/n-", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_SEQUENCE, on_string, answers), ZOK);
    for (int index = 0; index < COUNT; index++) {
        char expected[PATH_BYTES_MAX];
        snprintf(expected, sizeof expected, "0 /acknowledged/n-%010d", index);
        const char *answer = next_line(__LINE__, answers, "an answer");
        if (strcmp(answer, "-4 -") == 0)
            break;
        same_text(answer, expected);
        made_count++;
        if (made_count == ANSWERED_BEFORE)
            same(kill(server, SIGKILL), 0);
    }
    for (int left = COUNT - made_count - 1; left > 0; left--)
        next_is(answers, "-4 -"); /* connection loss, once for each */
    await(notes_of(zh), "connecting");
    await(notes_of(zh), "connected");
    for (int index = 0; index < made_count; index++) {
        char path[PATH_BYTES_MAX];
        snprintf(path, sizeof path, "/acknowledged/n-%010d", index);
        same(zoo_aexists(zh, path, 0, on_stat, answers), ZOK);
    }
    for (int index = 0; index < made_count; index++)
        next_is(answers, "0 version 0");
}

static void watch_and_wait(FILE *tell) {
    zhandle_t *zh = client();
    struct Notes *events = new_notes();
    struct String_vector names;
    char byte;
    int bytes = 1;
    make(zh, "/missed", "");
    make(zh, "/missed/data", "");
    make(zh, "/missed/deleted", "");
    make(zh, "/missed/child", "");
    make(zh, "/missed/same", "");
    same(zoo_wget(zh, "/missed/data", on_event, events, &byte, &bytes, NULL), ZOK);
    same(zoo_wget(zh, "/missed/deleted", on_event, events, &byte, &bytes, NULL), ZOK);
    same(zoo_wexists(zh, "/missed/created", on_event, events, NULL), ZNONODE);
    same(zoo_wget_children(zh, "/missed/child", on_event, events, &names), ZOK);
    same(zoo_wexists(zh, "/missed/same", on_event, events, NULL), ZOK);
    fprintf(tell, "watching\n");
    next_is(notes_of(zh), "connecting");
    next_is(notes_of(zh), "connected");
    settle(zh);
    while (untaken(events) > 0)
        fprintf(tell, "%s\n", next_line(__LINE__, events, "an event"));
    fprintf(tell, "that was all\n");
}

static int by_text(const void *left, const void *right) {
    return strcmp(left, right);
}

/* The other client is stopped while the server goes away and the nodes change. */
static void an_absent_client_is_told_what_it_missed(void) {
    const char *expected[] = {"changed /missed/data", "child /missed/child", "created /missed/created",
                              "deleted /missed/deleted"};
    enum { COUNT = sizeof expected / sizeof *expected };
    char events[COUNT][PATH_BYTES_MAX];
    struct Other other = start_other(watch_and_wait);
    same_text(heard(other), "watching");
    same(kill(other.pid, SIGSTOP), 0);
    zhandle_t *zh = client();
    same(kill(server, SIGKILL), 0);
    next_is(notes_of(zh), "connecting");
    next_is(notes_of(zh), "connected");
    same(set(zh, "/missed/data", "1", -1), ZOK);
    same(zoo_delete(zh, "/missed/deleted", -1), ZOK);
    make(zh, "/missed/created", "");
    make(zh, "/missed/child/a", "");
    same(kill(other.pid, SIGCONT), 0);
    for (int index = 0; index < COUNT; index++)
        snprintf(events[index], sizeof events[index], "%s", heard(other));
    qsort(events, COUNT, sizeof *events, by_text);
    for (int index = 0; index < COUNT; index++)
        same_text(events[index], expected[index]);
    same_text(heard(other), "that was all");
    kill_other(other);
}

static void calls_while_the_server_is_away_lose_the_connection(void) {
    zhandle_t *zh = client();
    int64_t id = zoo_client_id(zh)->client_id;
    same(kill(server, SIGSTOP), 0);
    struct Notes *answers = new_notes();
    same(zoo_aset(zh, "/", "", 0, -1, on_stat, answers), ZOK);
    same(kill(server, SIGKILL), 0);
    next_is(answers, "-4 version -1");
    next_is(notes_of(zh), "connecting");
    next_is(notes_of(zh), "connected");
    same(zoo_client_id(zh)->client_id, id);
    same(get_error(zh, "/"), ZOK);
}

/* ---- running them */

struct Test {
    const char *name;
    void (*body)(void);
    int server_end_count; /* how often the test ends the server */
};

#define TEST(name) {#name, name, 0}
#define ENDS_SERVER(name) {#name, name, 1}

static const struct Test tests[] = {
    TEST(a_handle_has_the_session_it_asked_for),
    TEST(a_session_timeout_is_kept_between_2_and_20_ticks),
    TEST(a_handle_that_accepts_read_only_servers_can_write),
    TEST(a_dead_server_in_the_list_is_passed_over),
    TEST(a_chroot_is_put_before_paths_and_taken_off_again),
    TEST(create_then_get_gives_the_data_and_a_fresh_stat),
    TEST(create2_gives_the_path_and_the_stat_that_get_gives),
    TEST(set_counts_versions_and_keeps_what_create_wrote),
    TEST(null_data_is_not_empty_data),
    TEST(a_small_buffer_takes_the_start_and_the_stat_says_the_length),
    TEST(missing_nodes_are_refused_by_every_call),
    TEST(stale_versions_are_refused_and_change_nothing),
    TEST(existing_nodes_and_parents_are_refused),
    TEST(get_children_lists_and_the_parents_stat_counts),
    TEST(a_parent_of_many_children_lists_them_all),
    TEST(sequence_numbers_count_every_create_below_the_parent),
    TEST(an_ephemeral_has_an_owner_and_no_children),
    TEST(the_library_refuses_bad_paths_itself),
    TEST(the_server_refuses_bad_paths_that_the_library_lets_through),
    TEST(the_servers_own_nodes_stay),
    TEST(a_node_with_a_ttl_is_unimplemented_unless_switched_on),
    TEST(a_request_of_exactly_jute_maxbuffer_is_served),
    TEST(one_byte_over_jute_maxbuffer_costs_the_connection_and_no_more),
    TEST(a_data_watch_fires_once_for_a_change),
    TEST(an_exists_watch_sees_the_creation_and_the_deletion),
    TEST(a_child_watch_sees_children_come_and_go_and_the_parent_go),
    TEST(a_deletion_tells_each_watcher_once),
    TEST(the_handles_own_watcher_hears_flagged_reads),
    TEST(a_failed_read_leaves_no_watch),
    TEST(a_multi_applies_all_of_its_operations),
    TEST(a_failing_multi_applies_none_and_names_the_culprit),
    TEST(each_operation_of_a_multi_has_the_error_of_its_call),
    TEST(a_multi_fires_the_watches_of_all_its_changes),
    TEST(pipelined_creates_are_answered_in_order),
    TEST(pipelined_reads_see_the_write_before_them),
    TEST(every_asynchronous_call_is_answered_in_order),
    TEST(asynchronous_errors_come_in_their_place),
    TEST(threads_that_share_a_handle_lose_no_update),
    TEST(a_sync_shows_what_others_wrote),
    TEST(acls_are_read_and_set),
    TEST(a_digest_keeps_others_out),
    TEST(a_digest_is_shown_only_to_those_who_may_change_it),
    TEST(acls_without_sense_are_refused),
    TEST(an_unknown_auth_scheme_ends_the_handle),
    TEST(ephemerals_go_with_zookeeper_close),
    TEST(a_cut_connection_keeps_session_ephemerals_watches_and_auth),
    TEST(thousands_of_watches_survive_a_cut_connection),
    TEST(a_session_is_taken_over_by_id_and_password),
    TEST(a_wrong_password_or_id_is_an_expired_session),
    TEST(a_closed_session_cannot_be_taken_over),
    TEST(a_session_left_alone_expires_after_its_timeout),
    TEST(a_client_that_paused_too_long_learns_of_its_expiry),
    ENDS_SERVER(a_handle_survives_a_kill_of_the_server),
    ENDS_SERVER(a_handle_survives_a_clean_restart_of_the_server),
    ENDS_SERVER(what_was_acknowledged_before_a_kill_is_there_after_it),
    ENDS_SERVER(an_absent_client_is_told_what_it_missed),
    ENDS_SERVER(calls_while_the_server_is_away_lose_the_connection),
};

static char *in_folder(const char *name) {
    char *path = NULL;
    return asprintf(&path, "%s/%s", folder, name) < 0 ? NULL : path;
}

static bool server_answers(void) {
    struct sockaddr_in peer = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port),
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval patience = {.tv_sec = 3};
    char answer[4096];
    size_t bytes = 0;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (connect(fd, (struct sockaddr *)&peer, sizeof peer) == 0 && send(fd, "srvr", 4, MSG_NOSIGNAL) == 4) {
        ssize_t more;
        while (bytes < sizeof answer - 1 && (more = recv(fd, answer + bytes, sizeof answer - 1 - bytes, 0)) > 0)
            bytes += (size_t)more;
    }
    close(fd);
    answer[bytes] = 0;
    return strstr(answer, "Mode:") != NULL;
}

/* Returns once the server answers. */
static void start_server(void) {
    server = fork();
    if (server == 0) {
        char *command = NULL;
        const char *log = in_folder("server.log");
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (freopen(log, "a", stdout) && dup2(1, 2) == 2 && freopen("/dev/null", "r", stdin)
            && asprintf(&command, "exec %s \"$0\"", getenv("SERVER_CMD")) > 0)
            execlp("sh", "sh", "-c", command, in_folder("zoo.cfg"), NULL);
        _exit(127);
    }
    for (long long end = now_ms(CLOCK_MONOTONIC) + START_SECONDS * 1000; now_ms(CLOCK_MONOTONIC) < end;) {
        if (server_answers())
            return;
        if (waitpid(server, NULL, WNOHANG) == server)
            break;
        usleep(20000);
    }
    printf("the server did not come up, see %s/server.log\n", folder);
    kill(server, SIGKILL);
    exit(1);
}

/* In the test's own process. */
static void run_test(const struct Test *test) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(TEST_SECONDS);
    test_name = test->name;
    test->body();
    while (handle_count > 0)
        close_handle(handles[0]);
    fflush(stdout);
    _exit(0);
}

/* Runs a test and keeps the server up; true if the test holds and ended the server as often as it says. */
static bool passes(const struct Test *test) {
    int status, test_status = 0, server_end_count = 0;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        run_test(test);
    for (pid_t ended = 0; ended != pid;) {
        ended = waitpid(-1, &status, 0);
        if (ended == server) {
            server_end_count++;
            start_server();
        } else if (ended == pid) {
            test_status = status;
        }
    }
    if (waitpid(server, NULL, WNOHANG) == server) {
        server_end_count++;
        start_server();
    }
    if (WIFSIGNALED(test_status))
        printf("FAILED %s\n  ended by signal %d (%s)\n", test->name, WTERMSIG(test_status),
               WTERMSIG(test_status) == SIGALRM ? "it took too long" : strsignal(WTERMSIG(test_status)));
    if (test_status == 0 && server_end_count != test->server_end_count)
        printf("FAILED %s\n  the server ended %d times, expected %d\n", test->name, server_end_count,
               test->server_end_count);
    return test_status == 0 && server_end_count == test->server_end_count;
}

static bool chosen(const struct Test *test, int part_count, char **parts) {
    for (int index = 0; index < part_count; index++)
        if (strstr(test->name, parts[index]))
            return true;
    return part_count == 0;
}

int main(int argc, char **argv) {
    if (argc < 3 || getenv("SERVER_CMD") == NULL) {
        fprintf(stderr, "usage: SERVER_CMD=... c_smoke FOLDER PORT [NAME-PART ...]\n");
        return 2;
    }
    int passed = 0, failed = 0;
    folder = argv[1];
    port = atoi(argv[2]);
    FILE *log = fopen(in_folder("client.log"), "a");
    zoo_set_debug_level(ZOO_LOG_LEVEL_INFO);
    zoo_set_log_stream(log);
    start_server();
    for (size_t index = 0; index < sizeof tests / sizeof *tests; index++) {
        if (!chosen(&tests[index], argc - 3, argv + 3))
            continue;
        if (passes(&tests[index]))
            passed++;
        else
            failed++;
    }
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0 || passed == 0;
}

// The phases of zk-latencies with the unmodified C client: c_latencies HOSTS CLIENTS ZNODES WATCHES PID...
//
// Each client is a thread with a session of its own, which sends all requests of a phase before it waits for their answers. All
// clients begin a phase together. For each phase: operations a second of all clients, and the CPU time, user and system, that the
// processes took for each operation.

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zookeeper/zookeeper.h>

enum phase { CREATE, SET, GET, DELETE, CREATE_EPHEMERAL, WATCH, DELETE_EPHEMERAL, PHASES };

static const char *const PHASE_NAMES[PHASES] = {"create", "set",   "get",
                                                "delete", "create ephemeral", "watch",
                                                "delete eph., event"};
#define DATA_BYTES 100
#define TIMEOUT_MS 30000
#define SERVERS_MAX 16

struct client {
  zhandle_t *handle;
  int number;
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  int connected, answers, events, errors;
};

static const char *hosts;
static int client_count, znode_count, watch_count, server_count;
static clockid_t server_clocks[SERVERS_MAX];
static pthread_barrier_t all_clients;

static double seconds(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return now.tv_sec + now.tv_nsec / 1e9;
}

static double server_cpu(void) {
  double sum = 0;
  for (int at = 0; at < server_count; at++) sum += seconds(server_clocks[at]);
  return sum;
}

static void note(struct client *client, int answers, int events, int errors) {
  pthread_mutex_lock(&client->mutex);
  client->answers += answers;
  client->events += events;
  client->errors += errors;
  pthread_cond_signal(&client->changed);
  pthread_mutex_unlock(&client->mutex);
}

static void on_event(zhandle_t *handle, int type, int state, const char *path, void *context) {
  struct client *client = context;
  (void)handle, (void)path;
  if (type != ZOO_SESSION_EVENT) {
    note(client, 0, 1, 0);
    return;
  }
  pthread_mutex_lock(&client->mutex);
  client->connected |= state == ZOO_CONNECTED_STATE;
  pthread_cond_signal(&client->changed);
  pthread_mutex_unlock(&client->mutex);
}

static void on_answer(int code, const void *context) {
  note((struct client *)context, 1, 0, code != ZOK && code != ZNONODE);
}
static void on_path(int code, const char *path, const void *context) {
  (void)path;
  on_answer(code, context);
}
static void on_stat(int code, const struct Stat *stat, const void *context) {
  (void)stat;
  on_answer(code, context);
}
static void on_data(int code, const char *data, int bytes, const struct Stat *stat, const void *context) {
  (void)data, (void)bytes, (void)stat;
  on_answer(code, context);
}

static int ask(struct client *client, enum phase phase, const char *path) {
  static const char data[DATA_BYTES];
  zhandle_t *handle = client->handle;
  switch (phase) {
    case CREATE:
    case CREATE_EPHEMERAL:
      return zoo_acreate(handle, path, data, DATA_BYTES, &ZOO_OPEN_ACL_UNSAFE,
                         phase == CREATE ? 0 : ZOO_EPHEMERAL, on_path, client);
    case SET: return zoo_aset(handle, path, data, DATA_BYTES, -1, on_stat, client);
    case GET: return zoo_aget(handle, path, 0, on_data, client);
    case WATCH: return zoo_awexists(handle, path, on_event, client, on_stat, client);
    default: return zoo_adelete(handle, path, -1, on_answer, client);
  }
}

// Sends all requests of a phase and waits for what comes of them.
static void run_phase(struct client *client, enum phase phase, const char *root) {
  int wanted = znode_count * (phase == WATCH ? watch_count : 1);
  int wanted_events = phase == DELETE_EPHEMERAL ? znode_count : 0;
  for (int at = 0; at < wanted; at++) {
    char path[128];
    snprintf(path, sizeof path, "%s/session_%d", root, at % znode_count);
    if (ask(client, phase, path) != ZOK) note(client, 1, 0, 1);
  }
  pthread_mutex_lock(&client->mutex);
  while (client->answers < wanted || client->events < wanted_events)
    pthread_cond_wait(&client->changed, &client->mutex);
  client->answers = client->events = 0;
  pthread_mutex_unlock(&client->mutex);
}

static void *run_client(void *context) {
  static double began, cpu_before, seconds_sum, cpu_sum, operation_sum;
  struct client *client = context;
  char root[64];
  client->handle = zookeeper_init(hosts, on_event, TIMEOUT_MS, 0, client, 0);
  pthread_mutex_lock(&client->mutex);
  while (!client->connected) pthread_cond_wait(&client->changed, &client->mutex);
  pthread_mutex_unlock(&client->mutex);
  snprintf(root, sizeof root, "/c_latencies-%d-%d", getpid(), client->number);
  client->errors += zoo_create(client->handle, root, "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0) != ZOK;
  for (int phase = 0; phase < PHASES; phase++) {
    if (pthread_barrier_wait(&all_clients) == PTHREAD_BARRIER_SERIAL_THREAD) {
      began = seconds(CLOCK_MONOTONIC);
      cpu_before = server_cpu();
    }
    pthread_barrier_wait(&all_clients);
    run_phase(client, phase, root);
    if (pthread_barrier_wait(&all_clients) != PTHREAD_BARRIER_SERIAL_THREAD) continue;
    double took = seconds(CLOCK_MONOTONIC) - began, cpu = server_cpu() - cpu_before;
    double operations = (double)client_count * znode_count * (phase == WATCH ? watch_count : 1);
    seconds_sum += took, cpu_sum += cpu, operation_sum += operations;
    printf("%-20s %8.0f ops/s %8.2f us of server CPU an operation\n", PHASE_NAMES[phase], operations / took, cpu * 1e6 / operations);
    if (phase == PHASES - 1)
      printf("%-20s %8.0f ops/s %8.2f us of server CPU an operation\n", "all", operation_sum / seconds_sum, cpu_sum * 1e6 / operation_sum);
    fflush(stdout);
  }
  client->errors += zoo_delete(client->handle, root, -1) != ZOK;
  zookeeper_close(client->handle);
  return NULL;
}

int main(int argument_count, char **arguments) {
  server_count = argument_count - 5;
  if (server_count < 1 || server_count > SERVERS_MAX) {
    fprintf(stderr, "usage: c_latencies HOSTS CLIENTS ZNODES WATCHES PID...\n");
    return 2;
  }
  hosts = arguments[1];
  client_count = atoi(arguments[2]), znode_count = atoi(arguments[3]), watch_count = atoi(arguments[4]);
  if (client_count < 1 || znode_count < 1 || watch_count < 1) {
    fprintf(stderr, "clients, znodes and watches are counts above 0\n");
    return 2;
  }
  for (int at = 0; at < server_count; at++)
    if (clock_getcpuclockid(atoi(arguments[5 + at]), &server_clocks[at]) != 0) {
      fprintf(stderr, "there is no process %s\n", arguments[5 + at]);
      return 2;
    }
  zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
  pthread_barrier_init(&all_clients, NULL, client_count);
  struct client *clients = calloc(client_count, sizeof *clients);
  pthread_t *threads = calloc(client_count, sizeof *threads);
  for (int at = 0; at < client_count; at++) {
    clients[at].number = at;
    pthread_mutex_init(&clients[at].mutex, NULL);
    pthread_cond_init(&clients[at].changed, NULL);
    pthread_create(&threads[at], NULL, run_client, &clients[at]);
  }
  int errors = 0;
  for (int at = 0; at < client_count; at++) {
    pthread_join(threads[at], NULL);
    errors += clients[at].errors;
  }
  if (errors > 0) printf("%d errors\n", errors);
  return errors > 0;
}

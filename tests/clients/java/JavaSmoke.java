import java.io.File;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.Collections;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.OpResult;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.Watcher.Event.EventType;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Id;
import org.apache.zookeeper.data.Stat;

/**
 * Runs the unmodified Java client of ZooKeeper against one server, started by SERVER_CMD on a zoo.cfg.
 *
 * Each scenario is one counted test; the last line is {@code N passed, N failed}. The argument is a folder for the
 * server's files.
 */
public final class JavaSmoke {
    private static final int WAIT_SECONDS = 30;
    private static final int SESSION_MS = 8000;
    private static final int TICK_MS = 500;
    private static final byte[] NOTHING = new byte[0];

    private final Path folder;
    private final int port;
    private final List<ZooKeeper> clients = new ArrayList<>();
    private Process server;
    private int passed;
    private int failed;

    private JavaSmoke(Path folder) throws IOException {
        this.folder = folder;
        try (ServerSocket probe = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            port = probe.getLocalPort();
        }
        List<String> config = Arrays.asList("tickTime=" + TICK_MS, "dataDir=" + folder.resolve("data"), "clientPort=" + port,
            "clientPortAddress=127.0.0.1", "4lw.commands.whitelist=*", "admin.enableServer=false");
        Files.write(folder.resolve("zoo.cfg"), config);
    }

    public static void main(String[] args) throws Exception {
        JavaSmoke smoke = new JavaSmoke(Paths.get(args[0]));
        Runtime.getRuntime().addShutdownHook(new Thread(smoke::killServer));
        try {
            smoke.startServer();
            smoke.runAll();
        } finally {
            smoke.killServer();
        }
        System.out.println(smoke.passed + " passed, " + smoke.failed + " failed");
        Runtime.getRuntime().halt(smoke.failed == 0 && smoke.passed > 0 ? 0 : 1);
    }

    private void runAll() {
        run("create, get, set and delete", this::nodes);
        run("versions are checked", this::versions);
        run("null data is not empty data", this::nullData);
        run("sequence numbers", this::sequence);
        run("children and stat", this::children);
        run("ephemerals go with their session", this::ephemerals);
        run("a multi applies all", this::multiApplies);
        run("a multi that fails applies none", this::multiFails);
        run("multi reads answer one by one", this::multiReads);
        run("one-shot watches", this::oneShotWatches);
        run("digest ACLs", this::digestAcls);
        run("the auth scheme", this::authScheme);
        run("asynchronous calls answer in order", this::asynchronous);
        run("a sync shows what others wrote", this::syncs);
        run("a session moves by id and password", this::sessionMoves);
        run("a wrong password is an expired session", this::wrongPassword);
        run("watches and ephemerals survive a clean restart", () -> restart(false));
        run("watches and ephemerals survive a kill", () -> restart(true));
    }

    // ---- scenarios

    private void nodes() throws Exception {
        ZooKeeper zk = client();
        Stat created = new Stat();
        same(zk.create("/nodes", bytes("one"), ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT, created), "/nodes");
        Stat read = new Stat();
        same(text(zk.getData("/nodes", false, read)), "one");
        same(read, created);
        same(zk.setData("/nodes", bytes("two"), 0).getVersion(), 1);
        same(text(zk.getData("/nodes", false, null)), "two");
        zk.delete("/nodes", 1);
        same(zk.exists("/nodes", false), null);
        refuses(Code.NONODE, () -> zk.getData("/nodes", false, null));
    }

    private void versions() throws Exception {
        ZooKeeper zk = client();
        make(zk, "/versions");
        refuses(Code.BADVERSION, () -> zk.setData("/versions", NOTHING, 3));
        refuses(Code.BADVERSION, () -> zk.delete("/versions", 3));
        refuses(Code.NODEEXISTS, () -> make(zk, "/versions"));
        make(zk, "/versions/child");
        refuses(Code.NOTEMPTY, () -> zk.delete("/versions", -1));
        refuses(Code.NONODE, () -> make(zk, "/versions/missing/child"));
    }

    private void nullData() throws Exception {
        ZooKeeper zk = client();
        zk.create("/null", null, ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        zk.create("/empty", NOTHING, ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        same(zk.getData("/null", false, null), null);
        same(zk.getData("/empty", false, null).length, 0);
    }

    private void sequence() throws Exception {
        ZooKeeper zk = client();
        make(zk, "/sequence");
        same(make(zk, "/sequence/n-", CreateMode.PERSISTENT_SEQUENTIAL), "/sequence/n-0000000000");
        same(make(zk, "/sequence/", CreateMode.EPHEMERAL_SEQUENTIAL), "/sequence/0000000001");
    }

    private void children() throws Exception {
        ZooKeeper zk = client();
        make(zk, "/children");
        make(zk, "/children/b");
        make(zk, "/children/a");
        Stat stat = new Stat();
        List<String> names = new ArrayList<>(zk.getChildren("/children", false, stat));
        Collections.sort(names);
        same(names, Arrays.asList("a", "b"));
        same(stat.getNumChildren(), 2);
        same(stat.getCversion(), 2);
    }

    private void ephemerals() throws Exception {
        ZooKeeper owner = client();
        ZooKeeper other = client();
        Events events = new Events();
        make(owner, "/ephemeral", CreateMode.EPHEMERAL);
        refuses(Code.NOCHILDRENFOREPHEMERALS, () -> make(owner, "/ephemeral/child"));
        sync(other);
        same(other.exists("/ephemeral", events).getEphemeralOwner(), owner.getSessionId());
        owner.close();
        events.expect(EventType.NodeDeleted, "/ephemeral");
    }

    private void multiApplies() throws Exception {
        ZooKeeper zk = client();
        make(zk, "/multi");
        List<OpResult> results = zk.multi(Arrays.asList(
            Op.create("/multi/a", bytes("1"), ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT),
            Op.setData("/multi/a", bytes("2"), 0), Op.check("/multi/a", 1), Op.delete("/multi/a", -1)));
        same(results.size(), 4);
        same(((OpResult.CreateResult) results.get(0)).getPath(), "/multi/a");
        same(((OpResult.SetDataResult) results.get(1)).getStat().getVersion(), 1);
        same(zk.exists("/multi/a", false), null);
    }

    private void multiFails() throws Exception {
        ZooKeeper zk = client();
        make(zk, "/multi-fails");
        try {
            zk.multi(Arrays.asList(Op.setData("/multi-fails", bytes("1"), 0), Op.check("/multi-fails", 9),
                Op.delete("/multi-fails", -1)));
            throw new AssertionError("the multi was applied");
        } catch (KeeperException e) {
            same(e.code(), Code.BADVERSION);
            List<Integer> codes = new ArrayList<>();
            for (OpResult result : e.getResults()) {
                codes.add(((OpResult.ErrorResult) result).getErr());
            }
            same(codes, Arrays.asList(0, Code.BADVERSION.intValue(), Code.RUNTIMEINCONSISTENCY.intValue()));
        }
        same(zk.exists("/multi-fails", false).getVersion(), 0);
    }

    private void multiReads() throws Exception {
        ZooKeeper zk = client();
        zk.create("/multi-read", bytes("x"), ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        List<OpResult> results = zk.multi(Arrays.asList(Op.getData("/multi-read"), Op.getData("/multi-missing"),
            Op.getChildren("/multi-read")));
        same(text(((OpResult.GetDataResult) results.get(0)).getData()), "x");
        same(((OpResult.ErrorResult) results.get(1)).getErr(), Code.NONODE.intValue());
        same(((OpResult.GetChildrenResult) results.get(2)).getChildren(), Collections.emptyList());
    }

    private void oneShotWatches() throws Exception {
        ZooKeeper zk = client();
        Events exists = new Events();
        Events data = new Events();
        Events child = new Events();
        same(zk.exists("/watched", exists), null);
        make(zk, "/watched");
        exists.expect(EventType.NodeCreated, "/watched");
        zk.getData("/watched", data, null);
        zk.getChildren("/watched", child);
        zk.setData("/watched", bytes("1"), -1);
        data.expect(EventType.NodeDataChanged, "/watched");
        make(zk, "/watched/child");
        child.expect(EventType.NodeChildrenChanged, "/watched");
        zk.setData("/watched", bytes("2"), -1);
        zk.delete("/watched/child", -1);
        sync(zk);
        data.expectNone();
        child.expectNone();
    }

    private void digestAcls() throws Exception {
        ZooKeeper owner = client();
        ZooKeeper other = client();
        Id user = new Id("digest", "user:tpUq/4Pn5A64fVZyQ0gOJ8ZWqkY=");
        owner.addAuthInfo("digest", bytes("super-user:secret"));
        owner.create("/digest", bytes("x"), ZooDefs.Ids.CREATOR_ALL_ACL, CreateMode.PERSISTENT);
        sync(other);
        refuses(Code.NOAUTH, () -> other.getData("/digest", false, null));
        other.addAuthInfo("digest", bytes("super-user:secret"));
        same(text(other.getData("/digest", false, null)), "x");
        same(owner.setACL("/digest", Collections.singletonList(new ACL(ZooDefs.Perms.READ, user)), 0).getAversion(), 1);
        refuses(Code.NOAUTH, () -> other.getData("/digest", false, null));
    }

    private void authScheme() throws Exception {
        ZooKeeper zk = client();
        refuses(Code.INVALIDACL,
            () -> zk.create("/auth", NOTHING, ZooDefs.Ids.CREATOR_ALL_ACL, CreateMode.PERSISTENT));
        zk.addAuthInfo("digest", bytes("me:mine"));
        zk.create("/auth", NOTHING, ZooDefs.Ids.CREATOR_ALL_ACL, CreateMode.PERSISTENT);
        List<ACL> acls = zk.getACL("/auth", new Stat());
        same(acls.size(), 1);
        same(acls.get(0).getId().getScheme(), "digest");
        check(acls.get(0).getId().getId().startsWith("me:"), "the id is the session's");
        same(acls.get(0).getPerms(), ZooDefs.Perms.ALL);
    }

    private void asynchronous() throws Exception {
        ZooKeeper zk = client();
        make(zk, "/async");
        int count = 500;
        List<String> order = Collections.synchronizedList(new ArrayList<>());
        CountDownLatch done = new CountDownLatch(2 * count);
        for (int i = 0; i < count; i++) {
            zk.setData("/async", bytes("" + i), i, (rc, path, ctx, stat) -> {
                order.add("set " + rc + " " + ctx);
                done.countDown();
            }, i);
            zk.getData("/async", false, (rc, path, ctx, data, stat) -> {
                order.add("get " + rc + " " + text(data));
                done.countDown();
            }, i);
        }
        check(done.await(WAIT_SECONDS, TimeUnit.SECONDS), "every call was answered");
        List<String> expected = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            expected.add("set 0 " + i);
            expected.add("get 0 " + i);
        }
        same(order, expected);
    }

    private void syncs() throws Exception {
        ZooKeeper writer = client();
        ZooKeeper reader = client();
        make(writer, "/synced");
        sync(reader);
        same(reader.exists("/synced", false) != null, true);
    }

    private void sessionMoves() throws Exception {
        ZooKeeper first = client();
        make(first, "/moves", CreateMode.EPHEMERAL);
        long id = first.getSessionId();
        byte[] password = first.getSessionPasswd();
        first.getTestable().injectSessionExpiration(); // ends this client without a word to the server
        Events events = new Events();
        ZooKeeper second = new ZooKeeper(address(), SESSION_MS, events, id, password);
        clients.add(second);
        events.await(KeeperState.SyncConnected);
        same(second.getSessionId(), id);
        same(second.exists("/moves", false).getEphemeralOwner(), id);
    }

    private void wrongPassword() throws Exception {
        ZooKeeper zk = client();
        Events events = new Events();
        ZooKeeper thief = new ZooKeeper(address(), SESSION_MS, events, zk.getSessionId(), new byte[16]);
        clients.add(thief);
        events.await(KeeperState.Expired);
    }

    private void restart(boolean kill) throws Exception {
        String base = kill ? "/killed" : "/restarted";
        Events session = new Events();
        ZooKeeper zk = new ZooKeeper(address(), SESSION_MS, session);
        clients.add(zk);
        session.await(KeeperState.SyncConnected);
        Events data = new Events();
        Events child = new Events();
        zk.create(base, bytes("kept"), ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        make(zk, base + "/mine", CreateMode.EPHEMERAL);
        zk.getData(base, data, null);
        zk.getChildren(base, child);
        long id = zk.getSessionId();
        stopServer(kill);
        session.await(KeeperState.Disconnected);
        startServer();
        session.await(KeeperState.SyncConnected);
        same(zk.getSessionId(), id);
        same(zk.exists(base + "/mine", false).getEphemeralOwner(), id);
        ZooKeeper other = client();
        same(text(other.getData(base, false, null)), "kept");
        other.setData(base, bytes("changed"), -1);
        data.expect(EventType.NodeDataChanged, base);
        make(other, base + "/new");
        child.expect(EventType.NodeChildrenChanged, base);
        zk.close();
        sync(other);
        same(other.exists(base + "/mine", false), null);
    }

    // ---- what the scenarios are written with

    private interface Body {
        void run() throws Exception;
    }

    /** Collects events and hands them out in order; connection states and node events apart. */
    private static final class Events implements Watcher {
        private final BlockingQueue<WatchedEvent> nodes = new LinkedBlockingQueue<>();
        private final BlockingQueue<KeeperState> states = new LinkedBlockingQueue<>();

        @Override
        public void process(WatchedEvent event) {
            if (event.getType() == EventType.None) {
                states.add(event.getState());
            } else {
                nodes.add(event);
            }
        }

        void expect(EventType type, String path) throws InterruptedException {
            WatchedEvent event = nodes.poll(WAIT_SECONDS, TimeUnit.SECONDS);
            check(event != null, "an event " + type + " " + path);
            same(event.getType() + " " + event.getPath(), type + " " + path);
        }

        void expectNone() {
            same(new ArrayList<>(nodes), Collections.emptyList());
        }

        void await(KeeperState wanted) throws InterruptedException {
            KeeperState state;
            do {
                state = states.poll(WAIT_SECONDS, TimeUnit.SECONDS);
                check(state != null, "the state " + wanted);
            } while (state != wanted);
        }
    }

    private void run(String name, Body body) {
        try {
            if (server == null || !server.isAlive()) {
                startServer();
            }
            body.run();
            passed++;
        } catch (Throwable e) { // an Error in a scenario is a failed scenario too
            failed++;
            System.out.println("FAILED " + name);
            e.printStackTrace(System.out);
        }
        for (ZooKeeper zk : clients) {
            try {
                zk.close(2000);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }
        clients.clear();
    }

    private String address() {
        return "127.0.0.1:" + port;
    }

    private ZooKeeper client() throws Exception {
        Events events = new Events();
        ZooKeeper zk = new ZooKeeper(address(), SESSION_MS, events);
        clients.add(zk);
        events.await(KeeperState.SyncConnected);
        return zk;
    }

    private static String make(ZooKeeper zk, String path) throws Exception {
        return make(zk, path, CreateMode.PERSISTENT);
    }

    private static String make(ZooKeeper zk, String path, CreateMode mode) throws Exception {
        return zk.create(path, NOTHING, ZooDefs.Ids.OPEN_ACL_UNSAFE, mode);
    }

    private static void sync(ZooKeeper zk) throws Exception {
        CountDownLatch done = new CountDownLatch(1);
        zk.sync("/", (rc, path, ctx) -> done.countDown(), null);
        check(done.await(WAIT_SECONDS, TimeUnit.SECONDS), "sync was answered");
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static String text(byte[] data) {
        return data == null ? null : new String(data, StandardCharsets.UTF_8);
    }

    private static void same(Object actual, Object expected) {
        check(Objects.equals(actual, expected), "got " + actual + ", expected " + expected);
    }

    private static void check(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    private static void refuses(Code code, Body body) throws Exception {
        try {
            body.run();
        } catch (KeeperException e) {
            same(e.code(), code);
            return;
        }
        throw new AssertionError("expected " + code);
    }

    // ---- the server

    private void startServer() throws Exception {
        String command = "exec " + System.getenv("SERVER_CMD") + " \"$0\"";
        File log = folder.resolve("log").toFile();
        server = new ProcessBuilder("sh", "-c", command, folder.resolve("zoo.cfg").toString())
            .redirectErrorStream(true).redirectOutput(ProcessBuilder.Redirect.appendTo(log))
            .redirectInput(new File("/dev/null")).start();
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
        while (System.nanoTime() < end && server.isAlive()) {
            if (srvr().contains("Mode:")) {
                return;
            }
            server.waitFor(50, TimeUnit.MILLISECONDS);
        }
        throw new IOException("the server did not come up, see " + log);
    }

    private String srvr() {
        try (Socket socket = new Socket()) {
            socket.connect(new InetSocketAddress("127.0.0.1", port), 1000);
            socket.setSoTimeout(3000);
            socket.getOutputStream().write(bytes("srvr"));
            socket.getOutputStream().flush();
            return text(socket.getInputStream().readAllBytes());
        } catch (IOException e) {
            return "";
        }
    }

    private void stopServer(boolean kill) throws Exception {
        if (kill) {
            server.destroyForcibly();
        } else {
            server.destroy();
        }
        check(server.waitFor(WAIT_SECONDS, TimeUnit.SECONDS), "the server ended");
    }

    private void killServer() {
        if (server != null) {
            server.destroyForcibly();
        }
    }
}

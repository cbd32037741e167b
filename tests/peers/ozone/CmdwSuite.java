// The workload of Ozone's load generator `cmdw` on Ozone's own ChunkManager, in one warm JVM, case by case as the lines on
// standard input say, so that whoever drives it can take turns between this and something else. Times are exact, where those of
// `cmdw` end on the tick of its progress bar; the CPU is that of the process, writes only.
//
//   java [-Dsync=true] -cp CLASSES:JARS/* CmdwSuite DATA_DIR THREADS CHUNKS_PER_BLOCK
//
// stdin                             stdout
//                                   ready impl=ozone-VERSION
// fresh LAYOUT                      fresh     (new containers, one a thread, for the case that follows)
// LAYOUT SIZE COUNT VARIANT         written   (at once, when the last chunk is acknowledged)
// figures                           impl=... layout=... rate=... (one line of key=value pairs, of that case)
// clean                             cleaned
//
// LAYOUT   FILE_PER_BLOCK | FILE_PER_CHUNK
// VARIANT  write      stage WRITE_DATA only, as cmdw does
//          write+end  as a datanode does: per block also finishWriteChunks (close), FILE_PER_CHUNK also COMMIT_DATA (rename)
// The driver syncs the file system behind `fresh`; and behind `written`, and times that: so the figures are worked out behind the sync, or
// the disk would have that time for nothing. `clean` closes what the case wrote and
// removes its containers with their folders, so that no case writes into folders that had the files of another.
// -Dsync=true sets hdds.container.chunk.write.sync: every chunk is durable before the next. It ends when stdin does.
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.util.*;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.commons.io.FileUtils;
import org.apache.hadoop.hdds.client.BlockID;
import org.apache.hadoop.hdds.conf.OzoneConfiguration;
import org.apache.hadoop.ozone.container.common.helpers.*;
import org.apache.hadoop.ozone.container.common.impl.ContainerLayoutVersion;
import org.apache.hadoop.ozone.container.common.transport.server.ratis.DispatcherContext;
import org.apache.hadoop.ozone.container.common.volume.*;
import org.apache.hadoop.ozone.container.keyvalue.*;
import org.apache.hadoop.ozone.container.keyvalue.helpers.BlockUtils;
import org.apache.hadoop.ozone.container.keyvalue.impl.ChunkManagerFactory;
import org.apache.hadoop.ozone.container.keyvalue.interfaces.ChunkManager;

public class CmdwSuite {
  /** The containers of the next case, or of the last, until `clean` removes them: one a thread. */
  private static KeyValueContainer[] containers;
  /** The blocks that the last case left open: one entry a thread. */
  private static long[] writtenBlocks;
  private static long firstBlock;

  private static DispatcherContext context(DispatcherContext.WriteChunkStage stage, long index) {
    return DispatcherContext.newBuilder(DispatcherContext.Op.WRITE_STATE_MACHINE_DATA)
        .setStage(stage).setTerm(1L).setLogIndex(index).build();
  }

  public static void main(String[] args) throws Exception {
    // What Ozone prints itself must not come between.
    final PrintStream out = System.out;
    System.setOut(System.err);
    final File dir = new File(args[0]);
    final int threads = Integer.parseInt(args[1]), chunksPerBlock = Integer.parseInt(args[2]);
    OzoneConfiguration conf = new OzoneConfiguration();
    conf.set("hdds.datanode.dir", dir + "/hdds");
    conf.set("ozone.metadata.dirs", dir + "/meta");
    // cmdw throws "dbParentDir == null" with the default, container schema v3.
    conf.setBoolean("hdds.datanode.container.schema.v3.enabled", false);
    conf.set("hdds.container.chunk.write.sync", System.getProperty("sync", "false"));
    MutableVolumeSet volumes =
        new MutableVolumeSet("dn", "cluster", conf, null, StorageVolume.VolumeType.DATA_VOLUME, null);
    ChunkManager manager = ChunkManagerFactory.createChunkManager(conf, null, null);
    String impl = "ozone-" + System.getProperty("ozone.version", "unknown");
    out.println("ready impl=" + impl);
    out.flush();
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    for (String line; (line = in.readLine()) != null;) {
      String[] words = line.trim().split(" +");
      if (words[0].equals("clean")) {
        clean(manager, conf);
        out.println("cleaned");
      } else if (words[0].equals("fresh")) {
        create(ContainerLayoutVersion.valueOf(words[1]), threads, conf, volumes);
        out.println("fresh");
      } else {
        ContainerLayoutVersion layout = ContainerLayoutVersion.valueOf(words[0]);
        Case written = run(manager, layout, Integer.parseInt(words[1]), Integer.parseInt(words[2]),
            words[3].equals("write+end"), chunksPerBlock);
        out.println("written");
        out.flush();
        if (!"figures".equals(in.readLine())) {
          break;
        }
        out.println("impl=" + impl + " " + written.figures());
      }
      out.flush();
    }
    Runtime.getRuntime().halt(0);
  }

  /** Containers that nobody wrote to, in folders of their own. */
  private static void create(ContainerLayoutVersion layout, int threads, OzoneConfiguration conf, MutableVolumeSet volumes)
      throws Exception {
    Random random = new Random();
    containers = new KeyValueContainer[threads];
    for (int i = 0; i < threads; i++) {
      containers[i] = new KeyValueContainer(
          new KeyValueContainerData(random.nextLong() >>> 8, layout, 1_000_000L, "p", "node"), conf);
      containers[i].create(volumes, new RoundRobinVolumeChoosingPolicy(), "scmid");
    }
  }

  /** What one case took. */
  private static class Case {
    ContainerLayoutVersion layout;
    boolean isEnded;
    int size;
    int count;
    int threads;
    long done;
    double seconds;
    double cpuUs;
    long[] latencies;

    /** Its line without the name of the implementation. */
    String figures() {
      double mb = count * (double) size / 1e6;
      Arrays.sort(latencies);
      return String.format(Locale.ROOT,
          "variant=%s layout=%s size=%d chunks=%d threads=%d rate=%.1f MBps=%.1f write_s=%.6f p50_ms=%.4f p99_ms=%.4f "
              + "cpu_us_per_chunk=%.3f failed=%d",
          isEnded ? "write+end" : "write", layout.name(), size, count, threads, count / seconds, mb / seconds, seconds,
          latencies[count / 2] / 1e6, latencies[(int) (count * 0.99)] / 1e6, cpuUs / count, count - done);
    }
  }

  private static long cpuNs() {
    return ((com.sun.management.OperatingSystemMXBean) java.lang.management.ManagementFactory.getOperatingSystemMXBean())
        .getProcessCpuTime();
  }

  /** One case, until its last chunk is acknowledged. */
  private static Case run(ChunkManager manager, ContainerLayoutVersion layout, int size, int count, boolean isEnded,
      int chunksPerBlock) throws Exception {
    final int threads = containers.length;
    final boolean perChunk = layout == ContainerLayoutVersion.FILE_PER_CHUNK;
    final long base = firstBlock += 100_000_000L;
    final byte[] data = new byte[size];
    new Random().nextBytes(data);
    final long[] latencies = new long[count];
    final long[] chunks = new long[threads];
    final AtomicLong next = new AtomicLong(), done = new AtomicLong();
    final CountDownLatch ready = new CountDownLatch(threads), go = new CountDownLatch(1);
    Thread[] all = new Thread[threads];
    for (int i = 0; i < threads; i++) {
      final int id = i;
      final KeyValueContainer container = containers[i];
      all[i] = new Thread(() -> {
        ready.countDown();
        try {
          go.await();
          final long containerId = container.getContainerData().getContainerID();
          long mine = 0;
          BlockID block = null;
          for (long number; (number = next.getAndIncrement()) < count; mine++) {
            ChunkInfo chunk = new ChunkInfo(base + "_chunk_" + number, mine % chunksPerBlock * size, size);
            block = new BlockID(containerId, base + mine / chunksPerBlock);
            chunks[id] = mine + 1;
            long began = System.nanoTime();
            manager.writeChunk(container, block, chunk, ByteBuffer.wrap(data),
                context(DispatcherContext.WriteChunkStage.WRITE_DATA, number));
            if (isEnded && perChunk) {
              manager.writeChunk(container, block, chunk, ByteBuffer.allocate(0),
                  context(DispatcherContext.WriteChunkStage.COMMIT_DATA, number));
            }
            if (isEnded && !perChunk && mine % chunksPerBlock == chunksPerBlock - 1) {
              manager.finishWriteChunks(container, new BlockData(block));
            }
            latencies[(int) number] = System.nanoTime() - began;
            done.incrementAndGet();
          }
          if (isEnded && !perChunk && mine % chunksPerBlock != 0) {
            manager.finishWriteChunks(container, new BlockData(block));
          }
        } catch (Throwable error) {
          error.printStackTrace();
        }
      });
      all[i].start();
    }
    ready.await();
    Case written = new Case();
    long cpuBefore = cpuNs(), began = System.nanoTime();
    go.countDown();
    for (Thread thread : all) {
      thread.join();
    }
    written.seconds = (System.nanoTime() - began) / 1e9;
    written.cpuUs = (cpuNs() - cpuBefore) / 1e3;
    written.layout = layout;
    written.isEnded = isEnded;
    written.size = size;
    written.count = count;
    written.threads = threads;
    written.done = done.get();
    written.latencies = latencies;
    writtenBlocks = new long[threads];
    for (int i = 0; i < threads && !perChunk && !isEnded; i++) {
      writtenBlocks[i] = (chunks[i] + chunksPerBlock - 1) / chunksPerBlock;
    }
    return written;
  }

  /** Closes what cmdw never closes, and removes the containers with their chunks and databases. */
  private static void clean(ChunkManager manager, OzoneConfiguration conf) throws Exception {
    for (int i = 0; containers != null && i < containers.length; i++) {
      KeyValueContainerData data = containers[i].getContainerData();
      for (long block = 0; writtenBlocks != null && block < writtenBlocks[i]; block++) {
        manager.finishWriteChunks(containers[i], new BlockData(new BlockID(data.getContainerID(), firstBlock + block)));
      }
      // The datanode moves a container to a folder of the volume first, which is made at its registration only.
      BlockUtils.removeDB(data, conf);
      FileUtils.deleteDirectory(new File(data.getContainerPath()));
    }
    containers = null;
    writtenBlocks = null;
  }
}

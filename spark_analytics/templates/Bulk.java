import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;

/**
 * What would take a call into Java for each of thousands of files, in one call.
 *
 * Spark's own compiler, Janino, compiles it when it is needed: no lambdas, no inferred types. Lists come and go as texts
 * whose parts end with a zero byte, which no name holds.
 */
public class Bulk {
  /** Size and path of each file below a directory: "340 s3a://bucket/day/file". */
  public String listed(FileSystem store, Path directory) throws IOException {
    StringBuilder found = new StringBuilder();
    RemoteIterator files = store.listFiles(directory, true);
    while (files.hasNext()) {
      FileStatus file = (FileStatus) files.next();
      found.append(file.getLen()).append(' ').append(file.getPath().toString()).append('\0');
    }
    return found.toString();
  }

  /** The first bytes of each file, each after its length, and none of a file that cannot be read. */
  public byte[] heads(final FileSystem store, String paths, final int most, int threads) throws Exception {
    ExecutorService pool = Executors.newFixedThreadPool(threads);
    try {
      List heads = new ArrayList();
      String[] wanted = paths.split("\0");
      for (int place = 0; place < wanted.length; place++) {
        final Path path = new Path(wanted[place]);
        heads.add(pool.submit(new Callable() {
          public Object call() {
            return head(store, path, most);
          }
        }));
      }
      ByteArrayOutputStream all = new ByteArrayOutputStream();
      DataOutputStream written = new DataOutputStream(all);
      for (int place = 0; place < wanted.length; place++) {
        byte[] head = (byte[]) ((Future) heads.get(place)).get();
        written.writeInt(head.length);
        written.write(head);
      }
      return all.toByteArray();
    } finally {
      pool.shutdownNow();
    }
  }

  static byte[] head(FileSystem store, Path path, int most) {
    try {
      FSDataInputStream stream = store.open(path);
      try {
        return stream.readNBytes(most);
      } finally {
        stream.close();
      }
    } catch (IOException gone) {
      return new byte[0];
    }
  }
}

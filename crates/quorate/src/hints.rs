//! Prints commands that a new user may try. They come below the ready line, in which `quorate
//! serve` says that it serves, and only if standard output is a terminal.

use std::io::IsTerminal;
use std::path::Path;

/// The faces in a ready line, each with its address.
pub fn faces(ready_line: &str) -> Vec<(String, String)> {
    let face = |word: &str| {
        word.split_once('=').map(|(name, address)| (name.to_string(), address.to_string()))
    };
    ready_line.split(' ').filter_map(face).collect()
}

/// If standard output is a terminal, prints what to try with a server that has these faces and this
/// data directory.
pub fn print(faces: &[(String, String)], data_dir: &Path) {
    if std::io::stdout().is_terminal() {
        let program = std::env::args().next().unwrap_or_else(|| "quorate".to_string());
        print!("{}", lines(faces, &program, data_dir));
    }
}

/// The lines to print for a server with these faces. `program` is this program's name as the user
/// typed it.
fn lines(faces: &[(String, String)], program: &str, data_dir: &Path) -> String {
    let address = |name: &str| {
        let found = faces.iter().find(|(face, _)| face == name);
        found.map(|(_, address)| address.as_str())
    };
    let mut text = String::new();
    if let Some(zk) = address("zk") {
        text += &format!(
            "  ZooKeeper   {program} zk --server {zk} ls /\n\
             \x20             zkCli.sh -server {zk}, or in Python: kazoo.client.KazooClient(\"{zk}\")\n"
        );
    }
    if let Some(etcd) = address("etcd") {
        text += &format!("  etcd        etcdctl --endpoints {etcd} put greeting hello\n");
    }
    if let Some(chunk) = address("chunk") {
        text += &format!("  chunks      Ozone's datanode client at {chunk}\n");
    }
    if let Some(admin) = address("admin") {
        text += &format!("  operators   curl http://{admin}/commands/monitor\n");
    }
    if let Some(metrics) = address("metrics") {
        text += &format!("              curl http://{metrics}/metrics\n");
    }
    let data_dir = std::path::absolute(data_dir).unwrap_or_else(|_| data_dir.to_path_buf());
    text += &format!("  data        {}; Ctrl-C ends the server\n", data_dir.display());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_face_has_a_line_with_its_address() {
        let faces = faces("quorate ready zk=127.0.0.1:1 etcd=127.0.0.1:2 admin=127.0.0.1:3");
        let text = lines(&faces, "quorate", Path::new("/d"));
        for part in [
            "quorate zk --server 127.0.0.1:1 ls /",
            "etcdctl --endpoints 127.0.0.1:2 ",
            "http://127.0.0.1:3/commands/monitor",
            "/d;",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(!text.contains("/metrics") && !text.contains("Ozone"), "{text}");
    }
}

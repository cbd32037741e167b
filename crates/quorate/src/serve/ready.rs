//! Announces that the server has begun to serve: on standard output or in the log, and to systemd.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;

use super::ports::ClientPorts;
use crate::hints;

/// The variable that names the socket on which systemd waits for a unit of `Type=notify`.
const NOTIFY_SOCKET: &str = "NOTIFY_SOCKET";

/// Announces that clients are served, and on which ports: with a line on standard output, and to
/// systemd. On a terminal, lines about what to try next follow; they name `data_dir`. A server
/// started under etcd's name instead logs the text that programs which start an etcd look for; a
/// leader is known by now.
///
/// # Errors
/// The address of a port is unknown.
pub(super) fn say(
    ports: &ClientPorts,
    monitoring: &str,
    data_dir: &Path,
    is_etcd: bool,
) -> std::io::Result<()> {
    let shown = ports.shown()?;
    if is_etcd {
        let addresses = format!("{shown}{monitoring}");
        tracing::info!(addresses = addresses.trim_start(), "ready to serve client requests");
    } else {
        let line = format!("quorate ready{shown}{monitoring}");
        println!("{line}");
        hints::print(&hints::faces(&line), data_dir);
    }
    if let Ok(socket) = std::env::var(NOTIFY_SOCKET)
        && let Err(error) = notify(&socket)
    {
        tracing::warn!("systemd cannot be told that the server is ready: {error}");
    }
    Ok(())
}

/// Tells systemd that the service is ready (`sd_notify(3)`). A socket name that begins with `@` is
/// an abstract one and not a file.
fn notify(socket: &str) -> std::io::Result<()> {
    let address = match socket.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(b"READY=1", &address).map(drop)
}

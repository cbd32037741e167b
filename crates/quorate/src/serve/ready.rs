//! The messages of a server that has begun to serve.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;

use super::ports::ClientPorts;
use crate::hints;

/// The variable with the socket on which systemd waits for a unit of `Type=notify`.
const NOTIFY_SOCKET: &str = "NOTIFY_SOCKET";

/// Says that clients are served, and on which ports. Under etcd's name that is a line of the log,
/// with the text that starters of an etcd look for; a leader is known by now.
/// On a terminal, lines about what to try next follow; they name `data_dir`.
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

/// Tells systemd that the service is ready (`sd_notify(3)`). A name that begins with `@` is not a
/// file.
fn notify(socket: &str) -> std::io::Result<()> {
    let address = match socket.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(b"READY=1", &address).map(drop)
}

//! A TCP proxy that can be cut, in one direction or both, for present and for future connections.
//!
//! A cut holds bytes back without losing them: they arrive late, as over a network that was down
//! for a while. Breaking the connections loses them.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// How many bytes are read at once. The proxy holds back at most this, besides the buffers of the
/// sockets.
const CHUNK_BYTES: usize = 16 * 1024;

/// Which directions are cut. The dialler is the side that opened the connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// Bytes from the dialler do not arrive.
    pub there: bool,
    /// Bytes to the dialler do not arrive.
    pub back: bool,
}

impl Cut {
    pub const NONE: Cut = Cut { there: false, back: false };
}

#[derive(Default)]
struct Inner {
    cut: Cut,
    is_over: bool,
    /// Both ends of all connections so far.
    streams: Vec<TcpStream>,
}

#[derive(Default)]
struct Shared {
    inner: Mutex<Inner>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Waits until a direction is not cut. False if the proxy has ended.
    fn wait_open(&self, is_there: bool) -> bool {
        let mut inner = self.lock();
        loop {
            let is_cut = if is_there { inner.cut.there } else { inner.cut.back };
            if inner.is_over || !is_cut {
                return !inner.is_over;
            }
            inner = self.changed.wait(inner).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }
}

/// A proxy in front of one address.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl Proxy {
    /// Starts a proxy that forwards every connection to `target`.
    pub fn start(target: SocketAddr) -> Proxy {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared::default());
        let of_thread = shared.clone();
        std::thread::spawn(move || accept(&listener, target, &of_thread));
        Proxy { address, shared }
    }

    /// The address to connect to instead of the target's.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets which directions are cut.
    pub fn set(&self, cut: Cut) {
        self.shared.lock().cut = cut;
        self.shared.changed.notify_all();
    }

    /// Breaks all connections. Bytes that were held back are lost.
    pub fn break_all(&self) {
        for stream in self.shared.lock().streams.drain(..) {
            // If this fails, the connection is already gone.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.changed.notify_all();
        self.break_all();
        // Wakes the listener, so that it notices the end.
        let _ = TcpStream::connect(self.address);
    }
}

fn accept(listener: &TcpListener, target: SocketAddr, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.lock().is_over {
            return;
        }
        let Ok(stream) = stream else { continue };
        let shared = shared.clone();
        std::thread::spawn(move || {
            // The connection is not forwarded before bytes may pass.
            if shared.wait_open(true) {
                let _ = carry(stream, target, &shared);
            }
        });
    }
}

fn carry(from: TcpStream, target: SocketAddr, shared: &Arc<Shared>) -> std::io::Result<()> {
    let to = TcpStream::connect(target)?;
    from.set_nodelay(true)?;
    to.set_nodelay(true)?;
    {
        let mut inner = shared.lock();
        inner.streams.retain(|stream| stream.peer_addr().is_ok());
        inner.streams.push(from.try_clone()?);
        inner.streams.push(to.try_clone()?);
    }
    let (back_from, back_to) = (to.try_clone()?, from.try_clone()?);
    let of_back = shared.clone();
    std::thread::spawn(move || copy(back_from, back_to, &of_back, false));
    copy(from, to, shared, true);
    Ok(())
}

fn copy(mut from: TcpStream, mut to: TcpStream, shared: &Shared, is_there: bool) {
    let mut bytes = [0; CHUNK_BYTES];
    loop {
        let count = from.read(&mut bytes).unwrap_or(0);
        // The end of a connection is held back like its bytes.
        if !shared.wait_open(is_there) || count == 0 || to.write_all(&bytes[..count]).is_err() {
            let _ = from.shutdown(Shutdown::Both);
            let _ = to.shutdown(Shutdown::Both);
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Both ends of a connection that goes through a proxy.
    fn through(listener: &TcpListener, proxy: &Proxy) -> [TcpStream; 2] {
        let from = TcpStream::connect(proxy.address()).unwrap();
        let (to, _) = listener.accept().unwrap();
        [from, to]
    }

    fn arrives(stream: &mut TcpStream, wait_ms: u64) -> Option<u8> {
        stream.set_read_timeout(Some(Duration::from_millis(wait_ms))).unwrap();
        let mut byte = [0];
        stream.read_exact(&mut byte).ok().map(|()| byte[0])
    }

    #[test]
    fn what_is_cut_in_one_direction_is_held_back_and_the_other_goes_on() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let proxy = Proxy::start(listener.local_addr().unwrap());
        let [mut from, mut to] = through(&listener, &proxy);
        from.write_all(b"1").unwrap();
        assert_eq!(arrives(&mut to, 10_000), Some(b'1'));
        proxy.set(Cut { there: true, back: false });
        from.write_all(b"2").unwrap();
        to.write_all(b"3").unwrap();
        assert_eq!(arrives(&mut from, 10_000), Some(b'3'));
        assert_eq!(arrives(&mut to, 50), None);
        proxy.set(Cut::NONE);
        assert_eq!(arrives(&mut to, 10_000), Some(b'2'));
    }

    #[test]
    fn what_is_held_back_is_lost_when_connections_break() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let proxy = Proxy::start(listener.local_addr().unwrap());
        let [mut from, mut to] = through(&listener, &proxy);
        from.write_all(b"1").unwrap();
        assert_eq!(arrives(&mut to, 10_000), Some(b'1'));
        proxy.set(Cut { there: true, back: true });
        from.write_all(b"2").unwrap();
        proxy.break_all();
        proxy.set(Cut::NONE);
        assert_eq!(to.read(&mut [0]).unwrap_or(0), 0);
        let [mut from, mut to] = through(&listener, &proxy);
        from.write_all(b"4").unwrap();
        assert_eq!(arrives(&mut to, 10_000), Some(b'4'));
    }
}

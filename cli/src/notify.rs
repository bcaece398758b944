//! Telling the service manager that what was started is ready, as `sd_notify` does: a line to the socket that systemd
//! names in `NOTIFY_SOCKET`. Without that variable nobody wants to know.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// It is ready, and this is what `systemctl status` says of it.
pub fn ready(how: &str) {
    tell(&format!("READY=1\nSTATUS={how}"));
}

/// It is stopping.
pub fn stopping() {
    tell("STOPPING=1");
}

fn tell(what: &str) {
    let Some(socket) = env::var_os("NOTIFY_SOCKET").filter(|s| !s.is_empty()) else { return };
    if let Err(e) = send(&socket, what) {
        eprintln!("weft: cannot notify the service manager ({}: {e})", socket.to_string_lossy());
    }
}

fn send(socket: &OsStr, what: &str) -> io::Result<()> {
    let address = match socket.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(what.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_arrives_at_both_kinds_of_sockets() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let name = format!("weft-notify-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(name.as_bytes()).unwrap();
        let named = (path.clone().into_os_string(), UnixDatagram::bind(&path).unwrap());
        let hidden = (format!("@{name}").into(), UnixDatagram::bind_addr(&address).unwrap());
        for (socket, manager) in [named, hidden] {
            send(&socket, "READY=1\nSTATUS=it serves").unwrap();
            let mut said = [0; 64];
            let n = manager.recv(&mut said).unwrap();
            assert_eq!(&said[..n], b"READY=1\nSTATUS=it serves");
        }
        assert!(send(OsStr::new("/nowhere/notify"), "x").is_err());
    }
}

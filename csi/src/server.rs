//! The driver's own socket.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;
use tonic::transport::server::Router;

use crate::busy::Busy;
use crate::cluster::Cluster;
use crate::proto::controller_server::ControllerServer;
use crate::proto::group_controller_server::GroupControllerServer;
use crate::proto::identity_server::IdentityServer;
use crate::proto::node_server::NodeServer;
use crate::proto::snapshot_metadata_server::SnapshotMetadataServer;
use crate::service::identity::About;
use crate::service::{controller, node};

/// The path of an endpoint: `unix:///run/csi.sock`, `unix:/run/csi.sock`, or the path itself.
///
/// # Errors
/// If it is of another kind.
pub fn path_of(endpoint: &str) -> Result<PathBuf> {
    let path = match endpoint.strip_prefix("unix:") {
        Some(path) => path.strip_prefix("//").unwrap_or(path),
        None if endpoint.contains("://") => {
            bail!("'{endpoint}' is not a Unix socket; give unix:///PATH")
        }
        None => endpoint,
    };
    match path.is_empty() {
        true => bail!("'{endpoint}' names no path; give unix:///PATH"),
        false => Ok(PathBuf::from(path)),
    }
}

/// Listens at a path. What a driver that is gone has left there is removed.
///
/// # Errors
/// If another driver listens there, or it cannot be.
pub fn listen(path: &Path) -> Result<UnixListener> {
    if UnixStream::connect(path).is_ok() {
        bail!("another driver listens at {}; stop it first", path.display());
    }
    match fs::remove_file(path) {
        Err(e) if e.kind() != ErrorKind::NotFound => {
            return Err(e).with_context(|| format!("cannot remove {}", path.display()));
        }
        _ => {}
    }
    UnixListener::bind(path).with_context(|| format!("cannot listen at {}", path.display()))
}

/// The services of a controller.
pub fn controller(cluster: Cluster) -> Router {
    let service = controller::Service { cluster: cluster.clone(), busy: Busy::default() };
    Server::builder()
        .add_service(IdentityServer::new(About(Some(cluster))))
        .add_service(ControllerServer::new(service.clone()))
        .add_service(GroupControllerServer::new(service.clone()))
        .add_service(SnapshotMetadataServer::new(service))
}

/// The services of a node.
pub fn node(service: node::Service) -> Router {
    Server::builder()
        .add_service(IdentityServer::new(About(None)))
        .add_service(NodeServer::new(service))
}

/// Serves until `stopped` is over, and the calls that have begun are answered.
///
/// # Errors
/// If the socket fails.
pub async fn serve(
    router: Router,
    listener: UnixListener,
    stopped: impl Future<Output = ()>,
) -> Result<()> {
    let incoming = UnixListenerStream::new(listener);
    Ok(router.serve_with_incoming_shutdown(incoming, stopped).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_unix_sockets() {
        for endpoint in ["unix:///a/b", "unix:/a/b", "/a/b"] {
            assert_eq!(path_of(endpoint).unwrap(), Path::new("/a/b"), "{endpoint}");
        }
        assert!(path_of("tcp://0.0.0.0:1").is_err() && path_of("unix://").is_err());
    }
}

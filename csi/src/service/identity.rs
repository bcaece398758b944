//! Who the driver is, and what it can do.

use tonic::{Request, Response, Status};

use crate::busy::apart;
use crate::cluster::Cluster;
use crate::proto::identity_server::Identity;
use crate::proto::plugin_capability::service::Type as Service;
use crate::proto::plugin_capability::volume_expansion::Type as Expansion;
use crate::proto::plugin_capability::{self as capability, Type};
use crate::proto::{
    GetPluginCapabilitiesRequest, GetPluginCapabilitiesResponse, GetPluginInfoRequest,
    GetPluginInfoResponse, PluginCapability, ProbeRequest, ProbeResponse,
};

/// The name that storage classes give.
pub const NAME: &str = "csi.weft";

/// The identity of a driver: of a controller, which has a cluster, or of a node.
#[derive(Clone)]
pub struct About(pub Option<Cluster>);

#[tonic::async_trait]
impl Identity for About {
    async fn get_plugin_info(
        &self,
        _: Request<GetPluginInfoRequest>,
    ) -> Result<Response<GetPluginInfoResponse>, Status> {
        Ok(Response::new(GetPluginInfoResponse {
            name: NAME.to_string(),
            vendor_version: env!("CARGO_PKG_VERSION").to_string(),
            ..Default::default()
        }))
    }

    async fn get_plugin_capabilities(
        &self,
        _: Request<GetPluginCapabilitiesRequest>,
    ) -> Result<Response<GetPluginCapabilitiesResponse>, Status> {
        let service = |service: Service| PluginCapability {
            r#type: Some(Type::Service(capability::Service { r#type: service.into() })),
        };
        let expansion = capability::VolumeExpansion { r#type: Expansion::Online.into() };
        // Those of the driver as a whole, whichever part of it is asked.
        let capabilities = vec![
            service(Service::ControllerService),
            service(Service::GroupControllerService),
            service(Service::SnapshotMetadataService),
            PluginCapability { r#type: Some(Type::VolumeExpansion(expansion)) },
        ];
        Ok(Response::new(GetPluginCapabilitiesResponse { capabilities }))
    }

    async fn probe(&self, _: Request<ProbeRequest>) -> Result<Response<ProbeResponse>, Status> {
        let cluster = self.0.clone();
        apart(move || {
            let ready = cluster.is_none_or(|cluster| cluster.hosts().is_ok());
            Ok(ProbeResponse { ready: Some(ready) })
        })
        .await
    }
}

//! The node service.

use std::sync::Arc;

use tonic::{Request, Response, Status};

use crate::busy::{Busy, apart};
use crate::node::machine::Machine;
use crate::node::{publishing, staging, usage};
use crate::proto::node_server::Node;
use crate::proto::node_service_capability::rpc::Type as Call;
use crate::proto::node_service_capability::{Rpc, Type};
use crate::proto::*;

/// What a node can do.
const CAPABILITIES: [Call; 5] = [
    Call::StageUnstageVolume,
    Call::GetVolumeStats,
    Call::ExpandVolume,
    Call::SingleNodeMultiWriter,
    Call::GetVolumeHealth,
];

/// A machine that uses volumes.
#[derive(Clone)]
pub struct Service {
    /// The name by which the cluster knows it.
    pub host: String,
    /// Its devices and mounts.
    pub machine: Arc<dyn Machine>,
    /// The volumes that are worked on.
    pub busy: Busy,
}

type Answer<T> = Result<Response<T>, Status>;

impl Service {
    /// Does work on a volume that nobody else works on.
    async fn run<T: Send + 'static>(
        &self,
        volume: &str,
        work: impl FnOnce(&dyn Machine) -> Result<T, Status> + Send + 'static,
    ) -> Answer<T> {
        let machine = self.machine.clone();
        self.busy.run(volume, move || work(&*machine)).await
    }
}

#[tonic::async_trait]
impl Node for Service {
    async fn node_stage_volume(
        &self,
        asked: Request<NodeStageVolumeRequest>,
    ) -> Answer<NodeStageVolumeResponse> {
        let asked = asked.into_inner();
        let id = asked.volume_id.clone();
        let done = self.run(&id, move |machine| staging::stage(machine, &asked)).await?;
        Ok(done.map(|()| NodeStageVolumeResponse {}))
    }

    async fn node_unstage_volume(
        &self,
        asked: Request<NodeUnstageVolumeRequest>,
    ) -> Answer<NodeUnstageVolumeResponse> {
        let asked = asked.into_inner();
        let id = asked.volume_id.clone();
        let work = move |machine: &dyn Machine| {
            staging::unstage(machine, &asked.volume_id, &asked.staging_target_path)
        };
        let done = self.run(&id, work).await?;
        Ok(done.map(|()| NodeUnstageVolumeResponse {}))
    }

    async fn node_publish_volume(
        &self,
        asked: Request<NodePublishVolumeRequest>,
    ) -> Answer<NodePublishVolumeResponse> {
        let asked = asked.into_inner();
        let id = asked.volume_id.clone();
        let done = self.run(&id, move |machine| publishing::publish(machine, &asked)).await?;
        Ok(done.map(|()| NodePublishVolumeResponse {}))
    }

    async fn node_unpublish_volume(
        &self,
        asked: Request<NodeUnpublishVolumeRequest>,
    ) -> Answer<NodeUnpublishVolumeResponse> {
        let asked = asked.into_inner();
        let id = asked.volume_id.clone();
        let work = move |machine: &dyn Machine| {
            publishing::unpublish(machine, &asked.volume_id, &asked.target_path)
        };
        let done = self.run(&id, work).await?;
        Ok(done.map(|()| NodeUnpublishVolumeResponse {}))
    }

    async fn node_get_volume_stats(
        &self,
        asked: Request<NodeGetVolumeStatsRequest>,
    ) -> Answer<NodeGetVolumeStatsResponse> {
        let (machine, asked) = (self.machine.clone(), asked.into_inner());
        let work = move || usage::of(&*machine, &asked.volume_id, &asked.volume_path);
        Ok(apart(work).await?.map(|usage| NodeGetVolumeStatsResponse { usage }))
    }

    async fn node_get_volume_health(
        &self,
        asked: Request<NodeGetVolumeHealthRequest>,
    ) -> Answer<NodeGetVolumeHealthResponse> {
        let (machine, asked) = (self.machine.clone(), asked.into_inner());
        let work = move || {
            let (at, staged) = (&asked.volume_publish_path, &asked.staging_target_path);
            usage::health(&*machine, &asked.volume_id, at, staged)
        };
        let health = apart(work).await?;
        Ok(health.map(|health| NodeGetVolumeHealthResponse { volume_health: Some(health) }))
    }

    async fn node_get_storage_health(
        &self,
        _: Request<NodeGetStorageHealthRequest>,
    ) -> Answer<NodeGetStorageHealthResponse> {
        Err(Status::unimplemented(
            "nodes report the condition of each volume, but not of the storage as a whole",
        ))
    }

    async fn node_expand_volume(
        &self,
        asked: Request<NodeExpandVolumeRequest>,
    ) -> Answer<NodeExpandVolumeResponse> {
        let asked = asked.into_inner();
        let id = asked.volume_id.clone();
        let size = self.run(&id, move |machine| staging::expand(machine, &asked)).await?;
        Ok(size.map(|size| NodeExpandVolumeResponse {
            capacity_bytes: i64::try_from(size).unwrap_or(i64::MAX),
        }))
    }

    async fn node_get_capabilities(
        &self,
        _: Request<NodeGetCapabilitiesRequest>,
    ) -> Answer<NodeGetCapabilitiesResponse> {
        let capability = |call: Call| NodeServiceCapability {
            r#type: Some(Type::Rpc(Rpc { r#type: call.into() })),
        };
        let capabilities = CAPABILITIES.map(capability).into();
        Ok(Response::new(NodeGetCapabilitiesResponse { capabilities }))
    }

    async fn node_get_info(&self, _: Request<NodeGetInfoRequest>) -> Answer<NodeGetInfoResponse> {
        Ok(Response::new(NodeGetInfoResponse {
            node_id: self.host.clone(),
            max_volumes_per_node: i64::try_from(self.machine.most_volumes()).unwrap_or(0),
            accessible_topology: None,
        }))
    }
}

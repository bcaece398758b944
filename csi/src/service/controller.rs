//! The controller service.

use tonic::{Request, Response, Status};

use crate::busy::{Busy, apart};
use crate::cluster::Cluster;
use crate::controller::{capacity, health, pages, publishing, snapshots, volumes};
use crate::proto::controller_server::Controller;
use crate::proto::controller_service_capability::rpc::Type as Call;
use crate::proto::controller_service_capability::{Rpc, Type};
use crate::proto::*;

/// What the controller can do.
const CAPABILITIES: [Call; 16] = [
    Call::CreateDeleteVolume,
    Call::PublishUnpublishVolume,
    Call::ListVolumes,
    Call::GetCapacity,
    Call::CreateDeleteSnapshot,
    Call::ListSnapshots,
    Call::CloneVolume,
    Call::PublishReadonly,
    Call::ExpandVolume,
    Call::ListVolumesPublishedNodes,
    Call::GetVolume,
    Call::SingleNodeMultiWriter,
    Call::ModifyVolume,
    Call::GetSnapshot,
    Call::GetVolumeHealth,
    Call::ListVolumeHealth,
];

/// The controller of a cluster.
#[derive(Clone)]
pub struct Service {
    /// The cluster.
    pub cluster: Cluster,
    /// The volumes that are worked on.
    pub busy: Busy,
}

type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl Controller for Service {
    async fn create_volume(
        &self,
        asked: Request<CreateVolumeRequest>,
    ) -> Answer<CreateVolumeResponse> {
        let (cluster, asked) = (self.cluster.clone(), asked.into_inner());
        let name = asked.name.clone();
        let work = move || volumes::create(&cluster, &asked);
        let made = self.busy.run(&format!("new volume {name}"), work).await?;
        Ok(made.map(|volume| CreateVolumeResponse { volume: Some(volume) }))
    }

    async fn delete_volume(
        &self,
        asked: Request<DeleteVolumeRequest>,
    ) -> Answer<DeleteVolumeResponse> {
        let (cluster, id) = (self.cluster.clone(), asked.into_inner().volume_id);
        let work = {
            let id = id.clone();
            move || volumes::delete(&cluster, &id)
        };
        let done = self.busy.run(&id, work).await?;
        Ok(done.map(|()| DeleteVolumeResponse {}))
    }

    async fn controller_publish_volume(
        &self,
        asked: Request<ControllerPublishVolumeRequest>,
    ) -> Answer<ControllerPublishVolumeResponse> {
        let (cluster, asked) = (self.cluster.clone(), asked.into_inner());
        let id = asked.volume_id.clone();
        let done = self.busy.run(&id, move || publishing::publish(&cluster, &asked)).await?;
        Ok(done.map(|publish_context| ControllerPublishVolumeResponse { publish_context }))
    }

    async fn controller_unpublish_volume(
        &self,
        asked: Request<ControllerUnpublishVolumeRequest>,
    ) -> Answer<ControllerUnpublishVolumeResponse> {
        let (cluster, asked) = (self.cluster.clone(), asked.into_inner());
        let id = asked.volume_id.clone();
        let work = move || publishing::unpublish(&cluster, &asked.volume_id, &asked.node_id);
        let done = self.busy.run(&id, work).await?;
        Ok(done.map(|()| ControllerUnpublishVolumeResponse {}))
    }

    async fn validate_volume_capabilities(
        &self,
        asked: Request<ValidateVolumeCapabilitiesRequest>,
    ) -> Answer<ValidateVolumeCapabilitiesResponse> {
        let (cluster, asked) = (self.cluster.clone(), asked.into_inner());
        apart(move || publishing::validate(&cluster, &asked)).await
    }

    async fn list_volumes(
        &self,
        asked: Request<ListVolumesRequest>,
    ) -> Answer<ListVolumesResponse> {
        let (cluster, asked) = (self.cluster.clone(), asked.into_inner());
        apart(move || pages::of_volumes(&cluster, &asked)).await
    }

    async fn controller_list_volume_health(
        &self,
        asked: Request<ControllerListVolumeHealthRequest>,
    ) -> Answer<ControllerListVolumeHealthResponse> {
        let (cluster, asked) = (self.cluster.clone(), asked.into_inner());
        apart(move || health::list(&cluster, &asked)).await
    }

    async fn controller_get_volume_health(
        &self,
        asked: Request<ControllerGetVolumeHealthRequest>,
    ) -> Answer<ControllerGetVolumeHealthResponse> {
        let (cluster, asked) = (self.cluster.clone(), asked.into_inner());
        let health = apart(move || health::of(&cluster, &asked.volume_id)).await?;
        Ok(health.map(|health| ControllerGetVolumeHealthResponse { volume_health: Some(health) }))
    }

    async fn get_capacity(
        &self,
        asked: Request<GetCapacityRequest>,
    ) -> Answer<GetCapacityResponse> {
        let (cluster, asked) = (self.cluster.clone(), asked.into_inner());
        let available = apart(move || capacity::available(&cluster, &asked.parameters)).await?;
        Ok(available.map(|available_capacity| GetCapacityResponse {
            available_capacity,
            maximum_volume_size: Some(available_capacity),
            ..GetCapacityResponse::default()
        }))
    }

    async fn controller_get_capabilities(
        &self,
        _: Request<ControllerGetCapabilitiesRequest>,
    ) -> Answer<ControllerGetCapabilitiesResponse> {
        let capability = |call: Call| ControllerServiceCapability {
            r#type: Some(Type::Rpc(Rpc { r#type: call.into() })),
        };
        let capabilities = CAPABILITIES.map(capability).into();
        Ok(Response::new(ControllerGetCapabilitiesResponse { capabilities }))
    }

    async fn create_snapshot(
        &self,
        asked: Request<CreateSnapshotRequest>,
    ) -> Answer<CreateSnapshotResponse> {
        let (cluster, asked) = (self.cluster.clone(), asked.into_inner());
        let name = format!("new snapshot {}", asked.name);
        let made = self.busy.run(&name, move || snapshots::create(&cluster, &asked)).await?;
        Ok(made.map(|snapshot| CreateSnapshotResponse { snapshot: Some(snapshot) }))
    }

    async fn delete_snapshot(
        &self,
        asked: Request<DeleteSnapshotRequest>,
    ) -> Answer<DeleteSnapshotResponse> {
        let (cluster, id) = (self.cluster.clone(), asked.into_inner().snapshot_id);
        let work = {
            let id = id.clone();
            move || snapshots::delete(&cluster, &id)
        };
        let done = self.busy.run(&id, work).await?;
        Ok(done.map(|()| DeleteSnapshotResponse {}))
    }

    async fn list_snapshots(
        &self,
        asked: Request<ListSnapshotsRequest>,
    ) -> Answer<ListSnapshotsResponse> {
        let (cluster, asked) = (self.cluster.clone(), asked.into_inner());
        apart(move || pages::of_snapshots(&cluster, &asked)).await
    }

    async fn get_snapshot(
        &self,
        asked: Request<GetSnapshotRequest>,
    ) -> Answer<GetSnapshotResponse> {
        let (cluster, id) = (self.cluster.clone(), asked.into_inner().snapshot_id);
        let found = apart(move || snapshots::get(&cluster, &id)).await?;
        Ok(found.map(|snapshot| GetSnapshotResponse { snapshot: Some(snapshot) }))
    }

    async fn controller_expand_volume(
        &self,
        asked: Request<ControllerExpandVolumeRequest>,
    ) -> Answer<ControllerExpandVolumeResponse> {
        let (cluster, asked) = (self.cluster.clone(), asked.into_inner());
        let id = asked.volume_id.clone();
        self.busy.run(&id, move || volumes::expand(&cluster, &asked)).await
    }

    async fn controller_get_volume(
        &self,
        asked: Request<ControllerGetVolumeRequest>,
    ) -> Answer<ControllerGetVolumeResponse> {
        let (cluster, id) = (self.cluster.clone(), asked.into_inner().volume_id);
        apart(move || pages::one_volume(&cluster, &id)).await
    }

    async fn controller_modify_volume(
        &self,
        asked: Request<ControllerModifyVolumeRequest>,
    ) -> Answer<ControllerModifyVolumeResponse> {
        let (cluster, asked) = (self.cluster.clone(), asked.into_inner());
        let id = asked.volume_id.clone();
        let done = self.busy.run(&id, move || volumes::modify(&cluster, &asked)).await?;
        Ok(done.map(|()| ControllerModifyVolumeResponse {}))
    }
}

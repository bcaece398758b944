//! The service of snapshots of several volumes.

use tonic::{Request, Response, Status};

use super::controller::Service;
use crate::busy::apart;
use crate::controller::groups;
use crate::proto::group_controller_server::GroupController;
use crate::proto::group_controller_service_capability::rpc::Type as Call;
use crate::proto::group_controller_service_capability::{Rpc, Type};
use crate::proto::*;

#[tonic::async_trait]
impl GroupController for Service {
    async fn group_controller_get_capabilities(
        &self,
        _: Request<GroupControllerGetCapabilitiesRequest>,
    ) -> Result<Response<GroupControllerGetCapabilitiesResponse>, Status> {
        let call = Rpc { r#type: Call::CreateDeleteGetVolumeGroupSnapshot.into() };
        let capability = GroupControllerServiceCapability { r#type: Some(Type::Rpc(call)) };
        Ok(Response::new(GroupControllerGetCapabilitiesResponse { capabilities: vec![capability] }))
    }

    async fn create_volume_group_snapshot(
        &self,
        asked: Request<CreateVolumeGroupSnapshotRequest>,
    ) -> Result<Response<CreateVolumeGroupSnapshotResponse>, Status> {
        let (cluster, asked) = (self.cluster.clone(), asked.into_inner());
        let name = format!("new group snapshot {}", asked.name);
        let made = self.busy.run(&name, move || groups::create(&cluster, &asked)).await?;
        Ok(made.map(|group| CreateVolumeGroupSnapshotResponse { group_snapshot: Some(group) }))
    }

    async fn delete_volume_group_snapshot(
        &self,
        asked: Request<DeleteVolumeGroupSnapshotRequest>,
    ) -> Result<Response<DeleteVolumeGroupSnapshotResponse>, Status> {
        let (cluster, asked) = (self.cluster.clone(), asked.into_inner());
        let id = asked.group_snapshot_id.clone();
        let work = move || groups::delete(&cluster, &asked.group_snapshot_id, &asked.snapshot_ids);
        let done = self.busy.run(&id, work).await?;
        Ok(done.map(|()| DeleteVolumeGroupSnapshotResponse {}))
    }

    async fn get_volume_group_snapshot(
        &self,
        asked: Request<GetVolumeGroupSnapshotRequest>,
    ) -> Result<Response<GetVolumeGroupSnapshotResponse>, Status> {
        let (cluster, asked) = (self.cluster.clone(), asked.into_inner());
        let work = move || groups::get(&cluster, &asked.group_snapshot_id, &asked.snapshot_ids);
        let found = apart(work).await?;
        Ok(found.map(|group| GetVolumeGroupSnapshotResponse { group_snapshot: Some(group) }))
    }
}

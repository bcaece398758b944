//! The service of changed ranges. Messages wait for whoever reads them: a few are ready, and no more.

use tokio::sync::mpsc::{Sender, channel};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use super::controller::Service;
use crate::cluster::Cluster;
use crate::controller::metadata::Comparison;
use crate::proto::snapshot_metadata_server::SnapshotMetadata;
use crate::proto::{
    BlockMetadata, BlockMetadataType, GetMetadataAllocatedRequest, GetMetadataAllocatedResponse,
    GetMetadataDeltaRequest, GetMetadataDeltaResponse,
};

/// Messages that are ready at a time.
const READY: usize = 2;

#[tonic::async_trait]
impl SnapshotMetadata for Service {
    type GetMetadataAllocatedStream = ReceiverStream<Result<GetMetadataAllocatedResponse, Status>>;
    type GetMetadataDeltaStream = ReceiverStream<Result<GetMetadataDeltaResponse, Status>>;

    async fn get_metadata_allocated(
        &self,
        asked: Request<GetMetadataAllocatedRequest>,
    ) -> Result<Response<Self::GetMetadataAllocatedStream>, Status> {
        let (cluster, asked) = (self.cluster.clone(), asked.into_inner());
        let begin = move |cluster: &Cluster| {
            let (offset, most) = (asked.starting_offset, asked.max_results);
            Comparison::read(cluster, &asked.snapshot_id, None, offset, most)
        };
        let message = |size, block_metadata| GetMetadataAllocatedResponse {
            block_metadata_type: BlockMetadataType::VariableLength.into(),
            volume_capacity_bytes: size,
            block_metadata,
        };
        streamed(cluster, begin, message).await
    }

    async fn get_metadata_delta(
        &self,
        asked: Request<GetMetadataDeltaRequest>,
    ) -> Result<Response<Self::GetMetadataDeltaStream>, Status> {
        let (cluster, asked) = (self.cluster.clone(), asked.into_inner());
        let begin = move |cluster: &Cluster| {
            let (base, target) = (&asked.base_snapshot_id, &asked.target_snapshot_id);
            let (offset, most) = (asked.starting_offset, asked.max_results);
            Comparison::read(cluster, target, Some(base), offset, most)
        };
        let message = |size, block_metadata| GetMetadataDeltaResponse {
            block_metadata_type: BlockMetadataType::VariableLength.into(),
            volume_capacity_bytes: size,
            block_metadata,
        };
        streamed(cluster, begin, message).await
    }
}

/// A comparison as a stream of messages.
async fn streamed<M: Send + 'static>(
    cluster: Cluster,
    begin: impl FnOnce(&Cluster) -> Result<Comparison, Status> + Send + 'static,
    message: impl Fn(i64, Vec<BlockMetadata>) -> M + Send + 'static,
) -> Result<Response<ReceiverStream<Result<M, Status>>>, Status> {
    let asks = cluster.clone();
    let comparison = crate::busy::apart(move || begin(&asks)).await?.into_inner();
    let (sender, receiver) = channel(READY);
    tokio::task::spawn_blocking(move || send_all(&cluster, &comparison, message, &sender));
    Ok(Response::new(ReceiverStream::new(receiver)))
}

/// Sends all ranges; at least one message, which says how large the snapshot is.
fn send_all<M>(
    cluster: &Cluster,
    comparison: &Comparison,
    message: impl Fn(i64, Vec<BlockMetadata>) -> M,
    sender: &Sender<Result<M, Status>>,
) {
    let size = i64::try_from(comparison.size).unwrap_or(i64::MAX);
    let mut is_empty = true;
    let done = comparison.run(cluster, |ranges| {
        is_empty = false;
        sender.blocking_send(Ok(message(size, ranges))).is_ok()
    });
    // Whoever has asked may be gone.
    let _ = match done {
        Err(failed) => sender.blocking_send(Err(failed)),
        Ok(()) if is_empty => sender.blocking_send(Ok(message(size, Vec::new()))),
        Ok(()) => Ok(()),
    };
}

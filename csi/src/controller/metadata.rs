//! Which ranges of a snapshot have content, or may differ from an earlier snapshot. A cluster answers some thousand
//! ranges at a time, and no more than a few answers are kept here, however many there are.

use serde_json::Value;
use tonic::Status;
use weft_host::ControlRequest;

use crate::cluster::Cluster;
use crate::names;
use crate::proto::BlockMetadata;

/// Ranges of a message if it is open how many: a message of the interface may have 4 MiB.
const USUAL: usize = 4096;

/// A comparison that is asked for.
#[derive(Clone, Debug)]
pub struct Comparison {
    snapshot: String,
    base: Option<String>,
    offset: u64,
    most: usize,
    /// The size of the snapshot.
    pub size: u64,
}

impl Comparison {
    /// Reads a request, and looks whether its snapshots are there.
    ///
    /// # Errors
    /// If a snapshot is missing, or the offset lies beyond its end.
    pub fn read(
        cluster: &Cluster,
        snapshot: &str,
        base: Option<&str>,
        offset: i64,
        most: i32,
    ) -> Result<Comparison, Status> {
        if snapshot.is_empty() || base.is_some_and(str::is_empty) {
            return Err(Status::invalid_argument("a snapshot's identifier is missing"));
        }
        let offset = u64::try_from(offset)
            .map_err(|_| Status::out_of_range("the starting offset is negative"))?;
        let most = usize::try_from(most)
            .map_err(|_| Status::invalid_argument("the number of results is negative"))?;
        let size = cluster.require_snapshot(snapshot)?.size;
        if let Some(base) = base {
            cluster.require_snapshot(base)?;
        }
        if offset > size {
            return Err(Status::out_of_range(format!(
                "the starting offset {offset} is beyond the end of the snapshot, {size} bytes"
            )));
        }
        let most = if most == 0 { USUAL } else { most.min(USUAL) };
        let (snapshot, base) = (snapshot.to_string(), base.map(str::to_string));
        Ok(Comparison { snapshot, base, offset, most, size })
    }

    /// Asks for all ranges, in order, and hands them on in pieces of the size that was asked for. Whoever takes them says
    /// whether to go on.
    ///
    /// # Errors
    /// If the cluster cannot be asked, or the two snapshots have nothing in common.
    pub fn run(
        &self,
        cluster: &Cluster,
        mut take: impl FnMut(Vec<BlockMetadata>) -> bool,
    ) -> Result<(), Status> {
        let mut offset = self.offset;
        loop {
            let answer = cluster.ask(&self.request(offset)).map_err(not_comparable)?;
            let ranges = answer["ranges"].as_array().map_or(&[][..], Vec::as_slice);
            for piece in ranges.chunks(self.most) {
                if !take(piece.iter().map(range).collect::<Result<_, _>>()?) {
                    return Ok(());
                }
            }
            match answer["next"].as_u64() {
                Some(next) if next > offset => offset = next,
                Some(_) => return Err(Status::internal("the comparison makes no progress")),
                None => return Ok(()),
            }
        }
    }

    fn request(&self, offset: u64) -> ControlRequest {
        let volume = names::parts(&self.snapshot).map_or("", |(volume, _)| volume).to_string();
        let (since, until) = (self.base.clone(), Some(self.snapshot.clone()));
        ControlRequest::VolumeDiff { volume, since, until, offset }
    }
}

/// If a comparison is refused, the two snapshots have nothing in common.
fn not_comparable(refused: Status) -> Status {
    match refused.code() {
        tonic::Code::FailedPrecondition => Status::invalid_argument(refused.message()),
        _ => refused,
    }
}

fn range(range: &Value) -> Result<BlockMetadata, Status> {
    let [byte_offset, size_bytes] = ["offset", "length"].map(|key| range[key].as_i64());
    match (byte_offset, size_bytes) {
        (Some(byte_offset), Some(size_bytes)) => Ok(BlockMetadata { byte_offset, size_bytes }),
        _ => Err(Status::internal("the answer of the process is of another version")),
    }
}

//! A million ranges, page by page, through the driver's own socket.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use common::{Running, SIZE, new_volume};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tonic::Code;
use tonic::transport::{Channel, Endpoint};
use weft_csi::cluster::{Cluster, Socket};
use weft_csi::controller::{snapshots, volumes};
use weft_csi::proto::snapshot_metadata_client::SnapshotMetadataClient;
use weft_csi::proto::*;
use weft_csi::server;
use weft_host::status::VolumeStatus;

/// Ranges that differ: every second sector.
const RANGES: u64 = 1_000_000;

/// Ranges of an answer of the control socket.
const ANSWERED: u64 = 4096;

/// Answers that may be on their way to a client that does not read: two are ready, one waits, and the windows of HTTP/2
/// hold some more.
const AHEAD: u64 = 8;

/// A control socket of a cluster with two snapshots that differ in a million ranges. It counts its answers.
fn many_ranges(dir: &Path) -> Arc<AtomicU64> {
    let listener = UnixListener::bind(dir.join("control.sock")).unwrap();
    let answers = Arc::new(AtomicU64::new(0));
    let counted = answers.clone();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let counted = counted.clone();
            thread::spawn(move || answer_all(stream, &counted));
        }
    });
    answers
}

fn answer_all(mut stream: UnixStream, counted: &AtomicU64) {
    let lines = BufReader::new(stream.try_clone().unwrap()).lines();
    for line in lines.map_while(Result::ok) {
        let asked: Value = serde_json::from_str(&line).unwrap();
        let answer = match asked["cmd"].as_str() {
            Some("volume-list") => json!({ "ok": true, "volumes": two_snapshots() }),
            Some("volume-diff") => {
                counted.fetch_add(1, Ordering::Relaxed);
                difference(asked["offset"].as_u64().unwrap_or(0) / 8192)
            }
            _ => json!({ "ok": false, "error": "this is not asked here" }),
        };
        if stream.write_all(format!("{answer}\n").as_bytes()).is_err() {
            return;
        }
    }
}

fn two_snapshots() -> Value {
    let named = |name: &str| VolumeStatus {
        name: name.to_string(),
        size: RANGES * 8192,
        ..VolumeStatus::default()
    };
    json!([named("v@a"), named("v@b")])
}

fn difference(first: u64) -> Value {
    let end = (first + ANSWERED).min(RANGES);
    let range = |n: u64| json!({ "offset": n * 8192, "length": 4096 });
    let ranges: Vec<Value> = (first..end).map(range).collect();
    let next = (end < RANGES).then_some(end * 8192);
    json!({ "ok": true, "ranges": ranges, "next": next })
}

/// A client of a driver that asks the control socket in a directory.
async fn client(dir: &Path) -> SnapshotMetadataClient<Channel> {
    let path = dir.join("csi.sock");
    let listener = server::listen(&path).unwrap();
    let router = server::controller(Cluster::new(Socket(dir.to_path_buf())));
    tokio::spawn(server::serve(router, listener, std::future::pending()));
    let endpoint = Endpoint::from_shared(format!("unix://{}", path.display())).unwrap();
    SnapshotMetadataClient::new(endpoint.connect().await.unwrap())
}

#[test]
fn a_million_ranges_are_read_and_only_a_few_are_ever_kept() {
    let dir = tempfile::tempdir().unwrap();
    let answers = many_ranges(dir.path());
    Runtime::new().unwrap().block_on(async {
        let mut client = client(dir.path()).await;
        let asked = GetMetadataDeltaRequest {
            base_snapshot_id: "v@a".into(),
            target_snapshot_id: "v@b".into(),
            max_results: 1000,
            ..GetMetadataDeltaRequest::default()
        };
        let mut stream = client.get_metadata_delta(asked).await.unwrap().into_inner();
        let (mut ranges, mut end) = (0, 0);
        while let Some(message) = stream.message().await.unwrap() {
            assert!(message.block_metadata.len() <= 1000);
            assert_eq!(message.volume_capacity_bytes, (RANGES * 8192) as i64);
            for range in &message.block_metadata {
                assert!(range.byte_offset >= end, "in order, without overlap");
                end = range.byte_offset + range.size_bytes;
            }
            ranges += message.block_metadata.len() as u64;
            let ahead = answers.load(Ordering::Relaxed) - ranges / ANSWERED;
            assert!(ahead <= AHEAD, "{ahead} answers are kept for a client that has not read them");
        }
        assert_eq!(ranges, RANGES);
    });
}

#[test]
fn reading_goes_on_at_an_offset_and_what_is_wrong_is_told() {
    let dir = tempfile::tempdir().unwrap();
    many_ranges(dir.path());
    Runtime::new().unwrap().block_on(async {
        let mut client = client(dir.path()).await;
        let asked = |base: &str, target: &str, offset: i64| GetMetadataDeltaRequest {
            base_snapshot_id: base.into(),
            target_snapshot_id: target.into(),
            starting_offset: offset,
            ..GetMetadataDeltaRequest::default()
        };
        let late = (RANGES - 10) as i64 * 8192;
        let mut stream =
            client.get_metadata_delta(asked("v@a", "v@b", late)).await.unwrap().into_inner();
        let message = stream.message().await.unwrap().unwrap();
        assert_eq!(
            (message.block_metadata.len(), message.block_metadata[0].byte_offset),
            (10, late)
        );
        assert_eq!(stream.message().await.unwrap(), None);
        for (base, target, offset, code) in [
            ("", "v@b", 0, Code::InvalidArgument),
            ("v@a", "v@c", 0, Code::NotFound),
            ("v@c", "v@b", 0, Code::NotFound),
            ("v@a", "v@b", -1, Code::OutOfRange),
            ("v@a", "v@b", i64::MAX, Code::OutOfRange),
        ] {
            let refused = client.get_metadata_delta(asked(base, target, offset)).await;
            assert_eq!(refused.unwrap_err().code(), code, "{base} {target} {offset}");
        }
    });
}

#[test]
fn a_snapshot_without_content_is_one_empty_message() {
    let running = Running::start();
    let cluster = running.cluster();
    let volume = volumes::create(&cluster, &new_volume("v", SIZE)).unwrap().volume_id;
    let taken = |name: &str| {
        let asked = CreateSnapshotRequest {
            source_volume_id: volume.clone(),
            name: name.to_string(),
            ..CreateSnapshotRequest::default()
        };
        snapshots::create(&cluster, &asked).unwrap().snapshot_id
    };
    let (first, second) = (taken("a"), taken("b"));
    Runtime::new().unwrap().block_on(async {
        let mut client = client(running.path()).await;
        let asked =
            GetMetadataAllocatedRequest { snapshot_id: first.clone(), ..Default::default() };
        let mut stream = client.get_metadata_allocated(asked).await.unwrap().into_inner();
        let message = stream.message().await.unwrap().unwrap();
        assert_eq!((message.block_metadata.len(), message.volume_capacity_bytes), (0, SIZE));
        assert_eq!(stream.message().await.unwrap(), None);
        // The later one as the base: nothing can be said.
        let asked = GetMetadataDeltaRequest {
            base_snapshot_id: second,
            target_snapshot_id: first,
            ..GetMetadataDeltaRequest::default()
        };
        let mut stream = client.get_metadata_delta(asked).await.unwrap().into_inner();
        assert_eq!(stream.message().await.unwrap_err().code(), Code::InvalidArgument);
    });
}

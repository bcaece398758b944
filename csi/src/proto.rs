//! Messages and services of the interface, generated from `proto/csi.proto`.

#![allow(missing_docs, clippy::all, unused_qualifications, rustdoc::all)]

tonic::include_proto!("csi.v1");

//! Compiles the interface's definition.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto/csi.proto");
    let definition = protox::compile(["proto/csi.proto"], ["proto"])?;
    // What the definition says of itself is markdown for readers of Go.
    tonic_prost_build::configure().build_server(true).build_client(true).compile_fds(definition)?;
    Ok(())
}

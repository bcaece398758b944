//! The page for operators: where it is served, and serving it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use weft_host::{How, Log, PageDoor};
use weft_page::Page;

use crate::args;

/// Where the page is served.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub struct PageOptions {
    /// Serve a status page for browsers at http://HOST:PORT/, for the users of `weft user` [default: off]
    #[arg(long, value_name = "HOST:PORT", value_parser = args::address)]
    page: Option<SocketAddr>,
    /// PEM file with a certificate and its chain, to serve the page over TLS; required beyond loopback
    #[arg(
        long,
        value_name = "FILE",
        requires = "page",
        requires = "page_key",
        hide_short_help = true
    )]
    page_certificate: Option<PathBuf>,
    /// PEM file with the key of this certificate
    #[arg(long, value_name = "FILE", requires = "page_certificate", hide_short_help = true)]
    page_key: Option<PathBuf>,
}

impl PageOptions {
    /// The address and files, if a page is wanted.
    pub fn door(&self) -> Result<Option<PageDoor>> {
        let (certificate, key) = (self.page_certificate.clone(), self.page_key.clone());
        Ok(PageDoor::given(self.page, certificate, key, How::Options)?)
    }
}

/// A page whose address is taken, and that is served once there is a log.
pub struct Bound(Option<(Page, PathBuf)>);

/// Takes the address of the page of what runs on `dir`, should that be wanted, before it runs: an address that is taken is
/// found then.
pub fn bind_page(at: Option<&PageDoor>, dir: &Path) -> Result<Bound> {
    let page = at.map(Page::bind).transpose()?;
    Ok(Bound(page.map(|page| (page, dir.to_path_buf()))))
}

impl Bound {
    /// Whether there is none.
    pub fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// Serves it. It also shows the lines of the returned log.
    pub fn serve(self, log: Log) -> Result<Log> {
        let Some((page, dir)) = self.0 else { return Ok(log) };
        let log = page.heard(log);
        let asked = dir.clone();
        let connect = move || {
            // Said to nobody: whoever looks at the page does not see this process's standard error.
            let control = args::connect(&asked).map_err(|e| weft_host::Error(format!("{e:#}")))?;
            Ok(control.telling(|_| ()))
        };
        page.serve(dir, log.clone(), connect)?;
        Ok(log)
    }
}

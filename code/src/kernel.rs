//! The loops over bytes, for the vector instructions that the CPU has.
//!
//! Everything is one of two operations: the XOR of some sources, and the sum
//! of sources times coefficients; either instead of what the destination
//! holds, or added to it. A [`Kernel`] is a pair of functions that do these
//! with certain instructions. The public functions use the best one.

use std::sync::OnceLock;

mod portable;
#[cfg(target_arch = "x86_64")]
#[macro_use]
mod vector;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod gfni;
mod tables;
#[cfg(test)]
mod tests;

/// Sets the destination to the XOR of the sources, or adds it if `keep`.
///
/// To call it is safe if the CPU has the instructions that its kernel needs
/// and the sources have the length of the destination.
type Xor = unsafe fn(dst: &mut [u8], sources: &[&[u8]], keep: bool);

/// Sets the destination to the sum of coefficients times sources, or adds it
/// if `keep`. To call it is safe under the conditions of [`Xor`].
type Dot = unsafe fn(dst: &mut [u8], terms: &[(u8, &[u8])], keep: bool);

/// An implementation of the loops that this CPU can run: [`Kernel::all`] is
/// the only way to get hold of one.
pub(crate) struct Kernel {
    name: &'static str,
    supported: fn() -> bool,
    xor: Xor,
    dot: Dot,
}

/// Every kernel of this architecture, the best first.
static KERNELS: &[Kernel] = &[
    #[cfg(target_arch = "x86_64")]
    gfni::KERNEL,
    #[cfg(target_arch = "x86_64")]
    avx512::KERNEL,
    #[cfg(target_arch = "x86_64")]
    avx2::KERNEL,
    portable::KERNEL,
];

impl Kernel {
    /// The kernels that this CPU can run, the best first.
    fn all() -> impl Iterator<Item = &'static Kernel> {
        KERNELS.iter().filter(|kernel| (kernel.supported)())
    }

    /// The best kernel that this CPU can run.
    pub(crate) fn best() -> &'static Kernel {
        static BEST: OnceLock<&Kernel> = OnceLock::new();
        BEST.get_or_init(|| Kernel::all().next().expect("the portable kernel runs anywhere"))
    }

    /// Sets `dst` to the XOR of `sources`, or adds that to it if `keep`.
    pub(crate) fn xor(&self, dst: &mut [u8], sources: &[&[u8]], keep: bool) {
        for source in sources {
            assert_eq!(source.len(), dst.len(), "length of a source");
        }
        // SAFETY: the CPU supports this kernel, or `all` would not have
        // given it out; the lengths were just compared.
        unsafe { (self.xor)(dst, sources, keep) }
    }

    /// Sets `dst` to the sum of the coefficients times the sources of
    /// `terms`, or adds that to it if `keep`.
    pub(crate) fn dot(&self, dst: &mut [u8], terms: &[(u8, &[u8])], keep: bool) {
        for (_, source) in terms {
            assert_eq!(source.len(), dst.len(), "length of a source");
        }
        // SAFETY: as in `xor`.
        unsafe { (self.dot)(dst, terms, keep) }
    }
}

/// Adds `src` to `dst`: `dst ^= src`.
///
/// # Panics
///
/// If the lengths differ.
pub fn xor_into(dst: &mut [u8], src: &[u8]) {
    Kernel::best().xor(dst, &[src], true);
}

/// Sets `dst` to the XOR of all `srcs`; to zeros if there are none.
///
/// # Panics
///
/// If the lengths differ.
pub fn xor_sources(dst: &mut [u8], srcs: &[&[u8]]) {
    Kernel::best().xor(dst, srcs, false);
}

/// Sets `dst` to `c` times `src`.
///
/// # Panics
///
/// If the lengths differ.
pub fn mul_into(dst: &mut [u8], src: &[u8], c: u8) {
    Kernel::best().dot(dst, &[(c, src)], false);
}

/// Adds `c` times `src` to `dst`: the update of one parity unit for the
/// [`delta`] of one data unit.
///
/// # Panics
///
/// If the lengths differ.
pub fn mul_add(dst: &mut [u8], src: &[u8], c: u8) {
    Kernel::best().dot(dst, &[(c, src)], true);
}

/// Sets `dst` to the sum of each coefficient of `srcs` times its source.
///
/// # Panics
///
/// If the lengths differ.
pub fn dot(dst: &mut [u8], srcs: &[(u8, &[u8])]) {
    Kernel::best().dot(dst, srcs, false);
}

/// Sets `dst` to what changed from `old` to `new`: their XOR.
///
/// # Panics
///
/// If the lengths differ.
pub fn delta(dst: &mut [u8], old: &[u8], new: &[u8]) {
    Kernel::best().xor(dst, &[old, new], false);
}

/// The name of the kernel in use: `avx512-gfni`, `avx512`, `avx2` or
/// `portable`.
pub fn kernel_name() -> &'static str {
    Kernel::best().name
}

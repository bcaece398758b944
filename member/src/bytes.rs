//! Numbers and byte strings, little-endian, to and from bytes: what the messages between members
//! and the records of the log are written with. Reading outside input never panics; it ends with
//! `None`.

/// Writes.
#[derive(Default)]
pub(crate) struct Writer(pub Vec<u8>);

impl Writer {
    pub fn u8(&mut self, v: u8) {
        self.0.push(v);
    }

    pub fn u16(&mut self, v: u16) {
        self.0.extend_from_slice(&v.to_le_bytes());
    }

    pub fn u32(&mut self, v: u32) {
        self.0.extend_from_slice(&v.to_le_bytes());
    }

    pub fn u64(&mut self, v: u64) {
        self.0.extend_from_slice(&v.to_le_bytes());
    }

    /// A length (4 bytes) and so many bytes.
    pub fn bytes(&mut self, v: &[u8]) {
        self.u32(u32::try_from(v.len()).expect("less than 4 GiB"));
        self.0.extend_from_slice(v);
    }

    /// A count (4 bytes) and so many numbers.
    pub fn numbers(&mut self, v: &[u64]) {
        self.u32(v.len() as u32);
        v.iter().for_each(|n| self.u64(*n));
    }

    /// 0, or 1 and what `write` writes.
    pub fn option<T>(&mut self, v: Option<T>, write: impl FnOnce(&mut Writer, T)) {
        self.u8(u8::from(v.is_some()));
        if let Some(v) = v {
            write(self, v);
        }
    }
}

/// Reads.
pub(crate) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(head)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|a| a[0])
    }

    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// 0 or 1, nothing else.
    pub fn bool(&mut self) -> Option<bool> {
        match self.u8()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let n = self.u32()?;
        self.take(n as usize)
    }

    /// So many of something, each at least `least` bytes long: a count that the rest cannot hold
    /// is refused before anything is allocated.
    pub fn list<T>(
        &mut self,
        least: usize,
        read: impl Fn(&mut Reader<'a>) -> Option<T>,
    ) -> Option<Vec<T>> {
        let n = self.u32()? as usize;
        if n.checked_mul(least)? > self.0.len() {
            return None;
        }
        (0..n).map(|_| read(self)).collect()
    }

    pub fn numbers(&mut self) -> Option<Vec<u64>> {
        self.list(8, Reader::u64)
    }

    pub fn option<T>(
        &mut self,
        read: impl FnOnce(&mut Reader<'a>) -> Option<T>,
    ) -> Option<Option<T>> {
        if self.bool()? { Some(Some(read(self)?)) } else { Some(None) }
    }

    /// Nothing is left over.
    pub fn end(self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}

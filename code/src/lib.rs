//! Stand-in until the kernels land.
#![allow(missing_docs)]
pub fn mul(a: u8, b: u8) -> u8 { let (mut a, mut b, mut r) = (a as u16, b, 0u16); while b != 0 { if b & 1 == 1 { r ^= a; } a <<= 1; if a & 0x100 != 0 { a ^= 0x11d; } b >>= 1; } r as u8 }
fn inv(a: u8) -> u8 { (1..=255).find(|&b| mul(a, b) == 1).unwrap() }
pub fn xor_into(d: &mut [u8], s: &[u8]) { d.iter_mut().zip(s).for_each(|(d, s)| *d ^= s) }
pub fn mul_add(d: &mut [u8], s: &[u8], c: u8) { if c == 1 { return xor_into(d, s); } d.iter_mut().zip(s).for_each(|(d, s)| *d ^= mul(*s, c)) }
pub fn delta(d: &mut [u8], o: &[u8], n: &[u8]) { for i in 0..d.len() { d[i] = o[i] ^ n[i]; } }
pub fn dot(d: &mut [u8], srcs: &[(u8, &[u8])]) { d.fill(0); for (c, s) in srcs { mul_add(d, s, *c); } }
pub fn kernel_name() -> &'static str { "portable" }
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code { k: usize, m: usize, rows: Vec<Vec<u8>> }
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodeError { #[error("bad")] Bad }
impl Code {
    pub const MAX_COLUMNS: usize = 32;
    pub fn new(k: usize, m: usize) -> Result<Code, CodeError> {
        let c = |j: usize, i: usize| inv((j as u8) ^ (m as u8 + i as u8));
        let rows = (0..m).map(|j| (0..k).map(|i| if k == 1 || m == 1 { 1 } else { mul(c(j, i), inv(c(0, i))) }).collect()).collect();
        Ok(Code { k, m, rows })
    }
    pub fn data_columns(&self) -> usize { self.k }
    pub fn parity_columns(&self) -> usize { self.m }
    pub fn columns(&self) -> usize { self.k + self.m }
    pub fn coefficient(&self, j: usize, i: usize) -> u8 { self.rows[j][i] }
    pub fn encode(&self, data: &[&[u8]], parity: &mut [&mut [u8]]) { for (j, p) in parity.iter_mut().enumerate() { p.fill(0); for (i, d) in data.iter().enumerate() { mul_add(p, d, self.rows[j][i]); } } }
    pub fn decoder(&self, have: &[usize], want: &[usize]) -> Result<Decoder, CodeError> {
        let k = self.k; let row = |c: usize| -> Vec<u8> { if c < k { (0..k).map(|i| u8::from(i == c)).collect() } else { self.rows[c - k].clone() } };
        let mut a: Vec<Vec<u8>> = have.iter().map(|&c| row(c)).collect();
        let mut e: Vec<Vec<u8>> = (0..k).map(|r| (0..k).map(|c| u8::from(r == c)).collect()).collect();
        for c in 0..k { let p = (c..k).find(|&r| a[r][c] != 0).ok_or(CodeError::Bad)?; a.swap(c, p); e.swap(c, p); let v = inv(a[c][c]); for x in 0..k { a[c][x] = mul(a[c][x], v); e[c][x] = mul(e[c][x], v); }
          for r in 0..k { if r != c && a[r][c] != 0 { let f = a[r][c]; for x in 0..k { let (p, q) = (mul(f, a[c][x]), mul(f, e[c][x])); a[r][x] ^= p; e[r][x] ^= q; } } } }
        let m = want.iter().map(|&w| { let r = row(w); (0..k).map(|x| (0..k).fold(0, |s, y| s ^ mul(r[y], e[y][x]))).collect() }).collect();
        Ok(Decoder { m })
    }
}
pub struct Decoder { m: Vec<Vec<u8>> }
impl Decoder {
    pub fn coefficients(&self, w: usize) -> &[u8] { &self.m[w] }
    pub fn decode(&self, w: usize, have: &[&[u8]], out: &mut [u8]) { out.fill(0); for (c, h) in self.m[w].iter().zip(have) { mul_add(out, h, *c); } }
}

//! A disk as a front end sets it up, message by message.

use std::fs::File;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use vhost::VhostUserMemoryRegionBase;
use vhost::vhost_user::message::{
    VhostTransferStateDirection, VhostTransferStatePhase, VhostUserConfigFlags, VhostUserInflight,
    VhostUserLog, VhostUserMemoryRegion, VhostUserProtocolFeatures, VhostUserShMemConfig,
    VhostUserSharedMsg, VhostUserSingleMemoryRegion, VhostUserVringAddrFlags, VhostUserVringState,
};
use vhost::vhost_user::{Error, GpuBackend, Result, VhostUserBackendReqHandlerMut};
use virtio_bindings::virtio_blk::VIRTIO_BLK_F_FLUSH;
use virtio_bindings::virtio_ring::VIRTIO_RING_F_EVENT_IDX;

use super::config::{MOST_QUEUES, PROTOCOL_FEATURES, Space, has};
use super::inflight::{self, Inflight};
use super::memory::{MOST_REGIONS, Memory};
use super::ring::Ring;
use crate::socket::Watch;

/// What of the protocol can be chosen; replies to all messages come with the library.
const CAN_CHOOSE: VhostUserProtocolFeatures = VhostUserProtocolFeatures::MQ
    .union(VhostUserProtocolFeatures::CONFIG)
    .union(VhostUserProtocolFeatures::BACKEND_REQ)
    .union(VhostUserProtocolFeatures::BACKEND_SEND_FD)
    .union(VhostUserProtocolFeatures::INFLIGHT_SHMFD)
    .union(VhostUserProtocolFeatures::CONFIGURE_MEM_SLOTS)
    .union(VhostUserProtocolFeatures::RESET_DEVICE);

/// The answer to requests for features that are not offered.
const NOT_OFFERED: Error = Error::InvalidOperation("this disk does not offer that");

/// A disk.
pub(super) struct Device {
    watch: Option<Watch>,
    /// Features that can be chosen, and those that were.
    features: u64,
    chosen: u64,
    protocol: u64,
    pub(super) space: Space,
    pub(super) memory: Memory,
    pub(super) rings: Vec<Ring>,
    inflight: Option<Inflight>,
}

impl Device {
    /// One that is not set up; its bells are heard by `watch`.
    pub(super) fn new(watch: Option<Watch>) -> Device {
        Device {
            watch,
            features: 0,
            chosen: 0,
            protocol: 0,
            space: Space::default(),
            memory: Memory::default(),
            rings: (0..MOST_QUEUES).map(|_| Ring::new()).collect(),
            inflight: None,
        }
    }

    /// What its driver can choose, and is told.
    pub(super) fn offer(&mut self, features: u64, space: Space) {
        (self.features, self.space) = (features, space);
    }

    /// Whether the driver flushes. Without that each write is safe before it is answered.
    pub(super) fn flushes(&self) -> bool {
        has(self.chosen, VIRTIO_BLK_F_FLUSH)
    }

    /// Whether the front end can be told of a new configuration.
    pub(super) fn can_tell(&self) -> bool {
        let chosen = VhostUserProtocolFeatures::from_bits_truncate(self.protocol);
        chosen.contains(VhostUserProtocolFeatures::CONFIG | VhostUserProtocolFeatures::BACKEND_REQ)
    }

    fn ring(&mut self, index: u32) -> Result<&mut Ring> {
        self.rings.get_mut(index as usize).ok_or(Error::InvalidParam)
    }

    fn move_rings(&mut self) {
        self.rings.iter_mut().for_each(|ring| ring.move_to(&self.memory));
    }

    fn stop(&mut self) {
        self.rings.iter_mut().for_each(|ring| _ = ring.stop());
    }
}

/// A bell that is rung without waiting.
fn bell(fd: Option<File>) -> Result<Option<File>> {
    if let Some(fd) = &fd {
        let set = fcntl_getfl(fd).and_then(|flags| fcntl_setfl(fd, flags | OFlags::NONBLOCK));
        set.map_err(|e| Error::ReqHandlerError(e.into()))?;
    }
    Ok(fd)
}

impl VhostUserBackendReqHandlerMut for Device {
    fn set_owner(&mut self) -> Result<()> {
        Ok(())
    }

    fn reset_owner(&mut self) -> Result<()> {
        self.stop();
        Ok(())
    }

    fn reset_device(&mut self) -> Result<()> {
        self.stop();
        self.rings.iter_mut().for_each(|ring| ring.enable(false));
        Ok(())
    }

    fn get_features(&mut self) -> Result<u64> {
        Ok(self.features)
    }

    fn set_features(&mut self, features: u64) -> Result<()> {
        if features & !self.features != 0 {
            return Err(Error::InvalidParam);
        }
        self.chosen = features;
        // Without features of the protocol nobody enables queues.
        if features & PROTOCOL_FEATURES == 0 {
            self.rings.iter_mut().for_each(|ring| ring.enable(true));
        }
        Ok(())
    }

    fn set_mem_table(
        &mut self,
        regions: &[VhostUserMemoryRegion],
        files: Vec<File>,
        _: Option<bool>,
    ) -> Result<Option<Vec<VhostUserMemoryRegionBase>>> {
        self.memory.set(regions, files)?;
        self.move_rings();
        Ok(None)
    }

    fn set_vring_num(&mut self, index: u32, entries: u32) -> Result<()> {
        self.ring(index)?.set_entries(entries)
    }

    fn set_vring_addr(
        &mut self,
        index: u32,
        _: VhostUserVringAddrFlags,
        descriptors: u64,
        used: u64,
        available: u64,
        _: u64,
    ) -> Result<()> {
        let ring = self.rings.get_mut(index as usize).ok_or(Error::InvalidParam)?;
        ring.set_places([descriptors, available, used], &self.memory)
    }

    fn set_vring_base(&mut self, index: u32, base: u32) -> Result<()> {
        self.ring(index)?.set_base(base);
        Ok(())
    }

    fn get_vring_base(&mut self, index: u32) -> Result<VhostUserVringState> {
        let base = self.ring(index)?.stop();
        Ok(VhostUserVringState::new(index, base.into()))
    }

    fn set_vring_kick(&mut self, index: u8, fd: Option<File>) -> Result<()> {
        // Without a bell the ring would have to be polled, which keeps a processor busy.
        let fd = fd.ok_or(NOT_OFFERED)?;
        let kick =
            self.watch.as_ref().ok_or(NOT_OFFERED)?.add(fd).map_err(Error::ReqHandlerError)?;
        let ring = self.rings.get_mut(usize::from(index)).ok_or(Error::InvalidParam)?;
        let inflight = match &self.inflight {
            None => None,
            Some(all) => Some(all.queue(index.into(), ring.entries()).ok_or(Error::InvalidParam)?),
        };
        let with_events = has(self.chosen, VIRTIO_RING_F_EVENT_IDX);
        ring.start(kick, self.memory.guest(), (with_events, inflight))
    }

    fn set_vring_call(&mut self, index: u8, fd: Option<File>) -> Result<()> {
        let fd = bell(fd)?;
        self.ring(index.into())?.set_call(fd);
        Ok(())
    }

    fn set_vring_err(&mut self, index: u8, fd: Option<File>) -> Result<()> {
        let fd = bell(fd)?;
        self.ring(index.into())?.set_error(fd);
        Ok(())
    }

    fn get_protocol_features(&mut self) -> Result<VhostUserProtocolFeatures> {
        Ok(CAN_CHOOSE)
    }

    fn set_protocol_features(&mut self, features: u64) -> Result<()> {
        let can_choose = CAN_CHOOSE | VhostUserProtocolFeatures::REPLY_ACK;
        if features & !can_choose.bits() != 0 {
            return Err(Error::InvalidParam);
        }
        self.protocol = features;
        Ok(())
    }

    fn get_queue_num(&mut self) -> Result<u64> {
        Ok(MOST_QUEUES as u64)
    }

    fn set_vring_enable(&mut self, index: u32, enable: bool) -> Result<()> {
        self.ring(index)?.enable(enable);
        Ok(())
    }

    fn get_config(&mut self, offset: u32, size: u32, _: VhostUserConfigFlags) -> Result<Vec<u8>> {
        self.space.get(offset, size).map(<[u8]>::to_vec).ok_or(Error::InvalidParam)
    }

    fn set_config(&mut self, _: u32, _: &[u8], _: VhostUserConfigFlags) -> Result<()> {
        Err(NOT_OFFERED)
    }

    fn set_gpu_socket(&mut self, _: GpuBackend) -> Result<()> {
        Err(NOT_OFFERED)
    }

    fn get_shared_object(&mut self, _: VhostUserSharedMsg) -> Result<File> {
        Err(NOT_OFFERED)
    }

    fn get_inflight_fd(&mut self, wanted: &VhostUserInflight) -> Result<(VhostUserInflight, File)> {
        let (told, file) = inflight::create(wanted)?;
        let own = file.try_clone().map_err(Error::ReqHandlerError)?;
        self.inflight = Some(Inflight::open(&told, own)?);
        Ok((told, file))
    }

    fn set_inflight_fd(&mut self, said: &VhostUserInflight, file: File) -> Result<()> {
        self.inflight = Some(Inflight::open(said, file)?);
        Ok(())
    }

    fn get_max_mem_slots(&mut self) -> Result<u64> {
        Ok(MOST_REGIONS as u64)
    }

    fn add_mem_region(
        &mut self,
        region: &VhostUserSingleMemoryRegion,
        fd: File,
        _: Option<bool>,
    ) -> Result<Option<VhostUserMemoryRegionBase>> {
        self.memory.add(region, fd)?;
        self.move_rings();
        Ok(None)
    }

    fn remove_mem_region(&mut self, region: &VhostUserSingleMemoryRegion) -> Result<()> {
        self.memory.remove(region)?;
        self.move_rings();
        Ok(())
    }

    fn set_device_state_fd(
        &mut self,
        _: VhostTransferStateDirection,
        _: VhostTransferStatePhase,
        _: File,
    ) -> Result<Option<File>> {
        Err(NOT_OFFERED)
    }

    fn check_device_state(&mut self) -> Result<()> {
        Err(NOT_OFFERED)
    }

    fn get_shmem_config(&mut self) -> Result<VhostUserShMemConfig> {
        Err(NOT_OFFERED)
    }

    fn set_log_base(&mut self, _: &VhostUserLog, _: File) -> Result<()> {
        Err(NOT_OFFERED)
    }
}

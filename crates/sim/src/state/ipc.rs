//! Memory and events of other processes, by handles of 64 bytes.

use super::memory::Origin;
use super::{Driver, Thread};
use crate::abi::{DevicePtr, Handle, LOCATION_DEVICE, Location};
use crate::codes::{Answer, Code, require};
use crate::ticket::{Bytes, Kind, Ticket};

/// `CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS`: the flag that opening asks for.
const LAZY_PEER_ACCESS: u32 = 1;

impl Driver {
    /// The number of this process, which tests may set.
    pub(super) fn process(&self) -> u32 {
        self.process.unwrap_or_else(std::process::id)
    }

    /// The number of a block for other processes: the same as long as it lives, and no other's.
    pub(super) fn export_number(&mut self, start: DevicePtr) -> u64 {
        let fresh = self.new_handle() as u64;
        let block = self.blocks.get_mut(&start);
        block.map_or(fresh, |block| *block.exported.get_or_insert(fresh))
    }

    /// `cuIpcGetMemHandle`: of linear memory, all of the block that the address lies in.
    pub fn export_memory(&mut self, thread: Thread, address: DevicePtr) -> Answer<Bytes> {
        self.current(thread)?;
        let (start, block) = self.block_around(address).ok_or(Code::INVALID_VALUE)?;
        require(matches!(block.origin, Origin::Linear))?;
        let (size, id) = (block.length, block.device as i32);
        let kind = LOCATION_DEVICE;
        let ticket = Ticket {
            kind: Kind::Memory,
            process: self.process(),
            object: self.export_number(start),
            address: start,
            size,
            location: Location { kind, id },
            handle_types: 0,
        };
        Ok(ticket.to_bytes())
    }

    /// `cuIpcOpenMemHandle`: an address without memory of this process. The context that opened
    /// a handle gets the same address again; no other one may open it, nor the exporter.
    pub fn open_memory(&mut self, thread: Thread, bytes: Bytes, flags: u32) -> Answer<DevicePtr> {
        let context = self.current(thread)?;
        self.refuse_in_capture(thread)?;
        require(flags == LAZY_PEER_ACCESS)?;
        let ticket = Ticket::from_bytes(&bytes).filter(|ticket| ticket.kind == Kind::Memory);
        let ticket = ticket.ok_or(Code::INVALID_VALUE)?;
        if ticket.process == self.process() {
            return Err(Code::INVALID_CONTEXT);
        }
        let device = self.device(ticket.location.id)?;
        if let Some(&address) = self.opened.get(&bytes)
            && let Some(block) = self.blocks.get_mut(&address)
            && let Origin::Ipc { count, .. } = &mut block.origin
        {
            if block.context != context {
                return Err(Code::INVALID_CONTEXT);
            }
            *count += 1;
            return Ok(address);
        }
        let (address, _) = self.take_address(ticket.size)?;
        let origin = Origin::Ipc { bytes, count: 1 };
        self.add_block(address, ticket.size, device, context, origin);
        self.opened.insert(bytes, address);
        Ok(address)
    }

    /// `cuIpcCloseMemHandle`: the address goes with the last close.
    pub fn close_memory(&mut self, thread: Thread, address: DevicePtr) -> Answer<()> {
        self.refuse_in_capture(thread)?;
        let block = self.blocks.get_mut(&address).map(|block| &mut block.origin);
        let Some(Origin::Ipc { count, .. }) = block else {
            return Err(Code::INVALID_VALUE);
        };
        *count -= 1;
        if *count == 0 {
            self.remove_block(address);
        }
        Ok(())
    }

    /// `cuIpcGetEventHandle`.
    pub fn export_event(&self, event: Handle) -> Answer<Bytes> {
        if !self.events.contains_key(&event) {
            return Err(Code::INVALID_HANDLE);
        }
        let ticket = Ticket {
            kind: Kind::Event,
            process: self.process(),
            object: event as u64,
            address: 0,
            size: 0,
            location: Location::default(),
            handle_types: 0,
        };
        Ok(ticket.to_bytes())
    }

    /// `cuIpcOpenEventHandle`: an event that nothing is recorded in, as nothing takes time here.
    pub fn open_event(&mut self, thread: Thread, bytes: Bytes) -> Answer<Handle> {
        let ticket = Ticket::from_bytes(&bytes).filter(|ticket| ticket.kind == Kind::Event);
        let ticket = ticket.ok_or(Code::INVALID_VALUE)?;
        if ticket.process == self.process() {
            return Err(Code::INVALID_CONTEXT);
        }
        self.create_event(thread)
    }
}

#[cfg(test)]
mod tests {
    use super::super::ready;
    use super::*;

    const MIB: u64 = 1 << 20;

    /// A driver of process 1 with a context, and one of process 2.
    fn two_processes() -> (Driver, Driver, Thread) {
        let (mut one, thread) = ready("2x16GiB");
        let (mut two, _) = ready("2x16GiB");
        (one.process, two.process) = (Some(1), Some(2));
        (one, two, thread)
    }

    #[test]
    fn opening_twice_gives_one_address_that_takes_no_memory() {
        let (mut one, mut two, thread) = two_processes();
        let p = one.alloc(thread, 5 * MIB).unwrap();
        let handle = one.export_memory(thread, p + 7).unwrap();
        assert_eq!(one.export_memory(thread, p), Ok(handle));
        let q = two.open_memory(thread, handle, 1).unwrap();
        assert_eq!(two.open_memory(thread, handle, 1), Ok(q));
        assert_eq!(two.free_memory(0), 16 << 30);
        assert_eq!(two.address_range(thread, q + 1), Ok((q, 5 * MIB)));
        assert_eq!(two.free(thread, q).unwrap_err().0, 1);
        two.close_memory(thread, q).unwrap();
        assert!(two.place(q).is_some());
        two.close_memory(thread, q).unwrap();
        assert!(two.place(q).is_none());
        assert_eq!(two.close_memory(thread, q).unwrap_err().0, 1);
        assert!(two.open_memory(thread, handle, 1).is_ok());
    }

    #[test]
    fn a_new_block_at_an_old_address_is_another_one() {
        let (mut one, mut two, thread) = two_processes();
        let p = one.alloc(thread, MIB).unwrap();
        let old = one.export_memory(thread, p).unwrap();
        one.free(thread, p).unwrap();
        assert_eq!(one.alloc(thread, MIB), Ok(p));
        let new = one.export_memory(thread, p).unwrap();
        let q = two.open_memory(thread, old, 1).unwrap();
        assert_ne!(two.open_memory(thread, new, 1), Ok(q));
    }

    #[test]
    fn the_exporter_and_other_contexts_may_not_open_a_handle() {
        let (mut one, mut two, thread) = two_processes();
        let p = one.alloc(thread, MIB).unwrap();
        let handle = one.export_memory(thread, p).unwrap();
        assert_eq!(one.open_memory(thread, handle, 1).unwrap_err().0, 201);
        assert_eq!(two.open_memory(thread, handle, 0).unwrap_err().0, 1);
        assert_eq!(two.open_memory(thread, [7; 64], 1).unwrap_err().0, 1);
        assert_eq!(two.open_memory(Thread(9), handle, 1).unwrap_err().0, 201);
        two.open_memory(thread, handle, 1).unwrap();
        let second = two.create_context(thread, 0, 0).unwrap();
        assert_eq!(two.open_memory(thread, handle, 1).unwrap_err().0, 201);
        two.destroy_context(thread, second).unwrap();
        two.reset_primary(thread, 0).unwrap();
        two.retain_primary(0).unwrap();
        assert!(two.open_memory(thread, handle, 1).is_ok());
    }

    #[test]
    fn only_linear_memory_has_a_handle() {
        let (mut one, _, thread) = two_processes();
        let managed = one.alloc_managed(thread, MIB, 1).unwrap();
        assert_eq!(one.export_memory(thread, managed).unwrap_err().0, 1);
        assert_eq!(one.export_memory(thread, 0xdead_0000).unwrap_err().0, 1);
    }

    #[test]
    fn events_cross_too() {
        let (mut one, mut two, thread) = two_processes();
        let event = one.create_event(thread).unwrap();
        let handle = one.export_event(event).unwrap();
        assert_eq!(one.open_event(thread, handle).unwrap_err().0, 201);
        let opened = two.open_event(thread, handle).unwrap();
        two.destroy_event(opened).unwrap();
        assert_eq!(two.open_memory(thread, handle, 1).unwrap_err().0, 1);
    }
}

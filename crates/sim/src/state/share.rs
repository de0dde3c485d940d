//! Pools and physical memory that other processes may use, and theirs here.

use super::memory::Origin;
use super::vmm::Source;
use super::{Driver, Stream, Thread};
use crate::abi::{ALLOCATION_PINNED, AllocationProp, DevicePtr, Handle, Location, Physical};
use crate::codes::{Answer, Code, require};
use crate::ticket::{Bytes, Kind, Ticket};

/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`.
const FILE: u32 = 1;
/// `CU_MEM_HANDLE_TYPE_FABRIC`: between machines, which needs a service that is not there.
const FABRIC: u32 = 8;
/// Addresses and sizes of a range that becomes a file are multiples of this.
const HOST_PAGE: u64 = 4096;

/// Checks the type of a shareable handle.
fn check(kind: u32, flags: u64) -> Answer<()> {
    if kind == FABRIC {
        return Err(Code::NOT_SUPPORTED);
    }
    require(kind == FILE && flags == 0)
}

/// A ticket that was read from a file, if it is of one of these kinds.
fn accept(ticket: Option<Bytes>, kinds: &[Kind]) -> Answer<Ticket> {
    let ticket = ticket.and_then(|bytes| Ticket::from_bytes(&bytes));
    let ticket = ticket.filter(|ticket| kinds.contains(&ticket.kind));
    ticket.ok_or(Code::INVALID_VALUE)
}

impl Driver {
    /// `cuMemPoolExportToShareableHandle`, as the contents of the file.
    pub fn export_pool(&mut self, handle: Handle, kind: u32, flags: u64) -> Answer<Bytes> {
        check(kind, flags)?;
        let process = self.process();
        let pool = self.pool(handle)?;
        require(pool.handle_types & kind != 0 && pool.foreign.is_none())?;
        let ticket = Ticket {
            kind: Kind::Pool,
            process,
            object: handle as u64,
            address: 0,
            size: pool.max,
            location: pool.location,
            handle_types: pool.handle_types,
        };
        Ok(ticket.to_bytes())
    }

    /// `cuMemPoolImportFromShareableHandle`: a pool that gives no memory of its own.
    pub fn import_pool(&mut self, file: Option<Bytes>, kind: u32, flags: u64) -> Answer<Handle> {
        check(kind, flags)?;
        let ticket = accept(file, &[Kind::Pool])?;
        self.add_foreign_pool(ticket)
    }

    /// `cuMemPoolExportPointer`: of a block from a pool that may be shared.
    pub fn export_pointer(&mut self, address: DevicePtr) -> Answer<Bytes> {
        let (start, block) = self.block_around(address).ok_or(Code::INVALID_VALUE)?;
        let Origin::Pool { pool, .. } = block.origin else {
            return Err(Code::INVALID_VALUE);
        };
        let size = block.length;
        let known = self.pools.get(&pool).ok_or(Code::INVALID_VALUE)?;
        require(known.handle_types != 0)?;
        let ticket = Ticket {
            kind: Kind::Pointer,
            process: self.process(),
            object: pool as u64,
            address: start,
            size,
            location: known.location,
            handle_types: known.handle_types,
        };
        Ok(ticket.to_bytes())
    }

    /// `cuMemPoolImportPointer`: a new address each time, which is freed like any other.
    pub fn import_pointer(&mut self, handle: Handle, bytes: Bytes) -> Answer<DevicePtr> {
        let ticket = accept(Some(bytes), &[Kind::Pointer])?;
        let pool = self.pool(handle)?;
        require(pool.foreign == Some((ticket.process, ticket.object)))?;
        let device = pool.device.unwrap_or(0);
        let (address, _) = self.take_address(ticket.size)?;
        let origin = Origin::Foreign { pool: handle };
        self.add_block(address, ticket.size, device, 0, origin);
        Ok(address)
    }

    /// `cuMemExportToShareableHandle`, as the contents of the file.
    pub fn export_physical(&mut self, handle: Physical, kind: u32, flags: u64) -> Answer<Bytes> {
        check(kind, flags)?;
        let process = self.process();
        let physical = self.referenced(handle)?;
        let handle_types = physical.prop.handle_types as u32;
        require(handle_types & kind != 0)?;
        let ticket = Ticket {
            kind: match physical.source {
                Source::Multicast(_) => Kind::Multicast,
                _ => Kind::Physical,
            },
            process,
            object: handle,
            address: 0,
            size: physical.size,
            location: physical.prop.location,
            handle_types,
        };
        Ok(ticket.to_bytes())
    }

    /// `cuMemImportFromShareableHandle`: memory of another process, or one more reference to this one's.
    pub fn import_physical(&mut self, file: Option<Bytes>, kind: u32) -> Answer<Physical> {
        check(kind, 0)?;
        let ticket = accept(file, &[Kind::Physical, Kind::Multicast])?;
        if ticket.process == self.process() {
            let physical = self.physical.get_mut(&ticket.object);
            physical.ok_or(Code::INVALID_VALUE)?.references += 1;
            return Ok(ticket.object);
        }
        let prop = AllocationProp {
            kind: ALLOCATION_PINNED,
            handle_types: ticket.handle_types as i32,
            location: ticket.location,
            win32: 0,
            flags: 0,
        };
        self.physical_home(&prop)?;
        let source = if ticket.kind == Kind::Multicast {
            self.foreign_multicast()
        } else {
            Source::Foreign
        };
        Ok(self.add_physical(prop, ticket.size, source))
    }

    /// `cuMemGetHandleForAddressRange`: a file for memory of one device, linear or all mapped.
    pub fn export_range(
        &mut self,
        start: DevicePtr,
        size: u64,
        kind: u32,
        flags: u64,
    ) -> Answer<Bytes> {
        require(kind == 1 && flags <= 1 && size > 0)?;
        require(start.is_multiple_of(HOST_PAGE) && size.is_multiple_of(HOST_PAGE))?;
        let end = start.checked_add(size).ok_or(Code::INVALID_VALUE)?;
        let place = self.place(start).ok_or(Code::INVALID_VALUE)?;
        if place.host || place.managed || place.pool != 0 {
            return Err(Code::NOT_SUPPORTED);
        }
        let mut reached = place.start + place.length;
        while reached < end {
            let mapping = self.mappings.get(&reached).ok_or(Code::INVALID_VALUE)?;
            reached += mapping.size;
        }
        let ticket = Ticket {
            kind: Kind::Range,
            process: self.process(),
            object: 0,
            address: start,
            size,
            location: Location::device(place.device),
            handle_types: 0,
        };
        Ok(ticket.to_bytes())
    }

    /// Checks that memory may be told where to be, or how it will be used: only managed memory may.
    pub fn managed_range(&mut self, address: DevicePtr, size: u64) -> Answer<()> {
        let place = self.place(address).ok_or(Code::INVALID_VALUE)?;
        let rest = place.length - (address - place.start);
        require(place.managed && size > 0 && size <= rest)
    }

    /// `cuMemPrefetchAsync`: moves nothing.
    pub fn prefetch(
        &mut self,
        thread: Thread,
        stream: Stream,
        address: DevicePtr,
        size: u64,
    ) -> Answer<()> {
        self.managed_range(address, size)?;
        self.idle_work(thread, stream).map(|_| ())
    }
}

#[cfg(test)]
#[path = "share_tests.rs"]
mod tests;

//! The unwind rule of an address, read from the `.eh_frame` of the object that holds it. The slow way: the cache
//! remembers what it found.

use super::expression::{self, Base, Value};
use super::rule::{Kind, Rule, Saved};
use crate::preload::doors::elf;
use crate::preload::loader;
use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EndianSlice, Error, NativeEndian, RegisterRule,
    UnwindContext, UnwindContextStorage, UnwindSection, UnwindTableRow, X86_64,
};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

type Slice = EndianSlice<'static, NativeEndian>;

/// Room for a table's rows on our own stack: rules for more registers than x86-64 has are no rules for it.
struct OnStack;

impl UnwindContextStorage<usize> for OnStack {
    type Rules = [(gimli::Register, RegisterRule<usize>); 20];
    type Stack = [UnwindTableRow<usize, Self>; 4];
}

/// A rule as found, and whether it holds as long as nothing is unloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The rule.
    pub rule: Rule,
    /// Code that no object holds (made at run time) may change at any moment.
    pub lasts: bool,
}

/// The object that holds an address: its search table and where it ends.
struct Holder {
    eh_frame_hdr: u64,
    end: u64,
}

/// `struct dl_find_object` of <dlfcn.h>.
#[repr(C)]
struct DlFindObject {
    flags: u64,
    map_start: *mut c_void,
    map_end: *mut c_void,
    link_map: *mut c_void,
    eh_frame: *mut c_void,
    reserved: [u64; 7],
}

type FindObject = unsafe extern "C" fn(*mut c_void, *mut DlFindObject) -> c_int;

/// `_dl_find_object` (glibc 2.35 and later); 0 where there is none.
static FIND_OBJECT: AtomicUsize = AtomicUsize::new(0);

/// Finds what the look-ups need.
pub fn prepare() {
    elf::each(&mut |object| {
        let found = object.symbol(c"_dl_find_object");
        if let Some(address) = found {
            FIND_OBJECT.store(address.expose_provenance(), Ordering::Release);
        }
        found.is_some()
    });
}

/// The rule for code at an address.
#[cold]
#[inline(never)]
pub fn find(pc: u64) -> Found {
    let holder = match FIND_OBJECT.load(Ordering::Acquire) {
        0 => holder_by_list(pc),
        function => holder_by_glibc(function, pc),
    };
    let Some(holder) = holder else {
        return Found {
            rule: without_rule(pc),
            lasts: false,
        };
    };
    let rule = match read(&holder, pc) {
        Ok(rule) => rule,
        Err(Error::NoUnwindInfoForAddress) => without_rule(pc),
        Err(_) => Rule::FOREIGN,
    };
    Found { rule, lasts: true }
}

fn holder_by_glibc(function: usize, pc: u64) -> Option<Holder> {
    // SAFETY: the address of glibc's `_dl_find_object`, which has this signature.
    let find = unsafe { std::mem::transmute::<usize, FindObject>(function) };
    let mut found = std::mem::MaybeUninit::<DlFindObject>::zeroed();
    let pc = std::ptr::with_exposed_provenance_mut(pc as usize);
    // SAFETY: `found` is valid for writes, and all zeroes are a value of it.
    let (code, found) = unsafe {
        let code = find(pc, found.as_mut_ptr());
        (code, found.assume_init())
    };
    (code == 0).then_some(Holder {
        eh_frame_hdr: found.eh_frame.expose_provenance() as u64,
        end: found.map_end.expose_provenance() as u64,
    })
}

/// By the list of loaded objects, where glibc is older.
fn holder_by_list(pc: u64) -> Option<Holder> {
    struct Search {
        pc: u64,
        holder: Option<Holder>,
    }
    unsafe extern "C" fn look(
        info: *mut libc::dl_phdr_info,
        _: libc::size_t,
        search: *mut c_void,
    ) -> c_int {
        // SAFETY: the loader passes a valid entry; `search` is the local below.
        let (info, search) = unsafe { (&*info, &mut *search.cast::<Search>()) };
        // SAFETY: the loader keeps the program headers mapped while the object is loaded.
        let headers =
            unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
        let at = |header: &libc::Elf64_Phdr| info.dlpi_addr.wrapping_add(header.p_vaddr);
        let mut loads = headers
            .iter()
            .filter(|header| header.p_type == libc::PT_LOAD);
        if !loads.any(|header| (at(header)..at(header) + header.p_memsz).contains(&search.pc)) {
            return 0;
        }
        let loads = headers
            .iter()
            .filter(|header| header.p_type == libc::PT_LOAD);
        let end = loads.map(|header| at(header) + header.p_memsz).max();
        let table = headers
            .iter()
            .find(|header| header.p_type == libc::PT_GNU_EH_FRAME);
        search.holder = Some(Holder {
            eh_frame_hdr: table.map_or(0, at),
            end: end.unwrap_or(0),
        });
        1
    }
    let mut search = Search { pc, holder: None };
    // SAFETY: the callback matches, gets the local, and allocates nothing.
    unsafe { loader::iterate(look, (&raw mut search).cast()) };
    search.holder
}

/// Memory of an object from an address to its end.
fn memory(start: u64, end: u64) -> Option<Slice> {
    let length = usize::try_from(end.checked_sub(start)?).ok()?;
    if start == 0 {
        return None;
    }
    let at = std::ptr::with_exposed_provenance::<u8>(start as usize);
    // SAFETY: the object's own range, from a table that the loader or the table itself names; the object stays loaded,
    // since code of it is on this stack. What is read follows the tables, as libgcc does.
    Some(EndianSlice::new(
        unsafe { std::slice::from_raw_parts(at, length) },
        NativeEndian,
    ))
}

fn read(holder: &Holder, pc: u64) -> Result<Rule, Error> {
    let header = memory(holder.eh_frame_hdr, holder.end).ok_or(Error::NoUnwindInfoForAddress)?;
    let bases = BaseAddresses::default().set_eh_frame_hdr(holder.eh_frame_hdr);
    let header = EhFrameHdr::from(header).parse(&bases, 8)?;
    let start = header.eh_frame_ptr().direct()?;
    let bases = bases.set_eh_frame(start);
    let section = memory(start, holder.end).ok_or(Error::NoUnwindInfoForAddress)?;
    let mut section = EhFrame::from(section);
    section.set_address_size(8);
    let table = header
        .table()
        .ok_or(Error::UnsupportedPointerEncoding(gimli::DwEhPe(0xff)))?;
    let fde = table.fde_for_address(&section, &bases, pc, EhFrame::cie_from_offset)?;
    let mut context = UnwindContext::<usize, OnStack>::new_in();
    let encoding = fde.cie().encoding();
    let is_signal = fde.is_signal_trampoline();
    let row = fde.unwind_info_for_address(&section, &bases, &mut context, pc)?;
    let rules = Rules {
        section: &section,
        encoding,
        pc,
    };
    Ok(if is_signal {
        rules.signal(row)
    } else {
        rules.ordinary(row)
    }
    .unwrap_or(Rule::FOREIGN))
}

/// Rows of one function, read as rules of ours.
struct Rules<'a> {
    section: &'a EhFrame<Slice>,
    encoding: gimli::Encoding,
    pc: u64,
}

type Row = UnwindTableRow<usize, OnStack>;

impl Rules<'_> {
    fn value(&self, expression: &gimli::UnwindExpression<usize>) -> Option<Value> {
        let expression = expression.get(self.section).ok()?;
        expression::evaluate(expression, self.encoding, self.pc)
    }

    fn ordinary(&self, row: &Row) -> Option<Rule> {
        match row.register(X86_64::RA) {
            Some(RegisterRule::Offset(-8)) => {}
            // The outermost function says so in this way.
            Some(RegisterRule::Undefined) => return Some(Rule::STOP),
            _ => return None,
        }
        let (kind, cfa) = match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => {
                (Base::of(*register)?.kind(), *offset)
            }
            CfaRule::Expression(expression) => match self.value(expression)? {
                Value::Register(base, offset) => (base.kind(), offset),
                Value::At(Base::Frame, offset) => (Kind::AtBase, offset),
                _ => return None,
            },
        };
        let (saved, at) = match row.register(X86_64::RBP) {
            None | Some(RegisterRule::Undefined | RegisterRule::SameValue) => (Saved::Same, 0),
            Some(RegisterRule::Offset(at)) => (Saved::AtCfa, at),
            Some(RegisterRule::Expression(expression)) => match self.value(&expression)? {
                Value::Register(Base::Frame, at) => (Saved::AtBase, at),
                _ => return None,
            },
            _ => return None,
        };
        // A stack pointer that is not the CFA would need to be followed, too.
        match row.register(X86_64::RSP) {
            None | Some(RegisterRule::Undefined) => {}
            Some(RegisterRule::ValOffset(0)) => {}
            _ => return None,
        }
        Some(Rule::new(kind, cfa, saved, at))
    }

    /// The frame that the kernel makes for a handler, as <asm/sigcontext.h> lays it out.
    fn signal(&self, row: &Row) -> Option<Rule> {
        let is_at = |rule: Option<RegisterRule<usize>>, offset: i64| match rule {
            Some(RegisterRule::Expression(expression)) => {
                self.value(&expression) == Some(Value::Register(Base::Stack, offset))
            }
            _ => false,
        };
        let cfa = match row.cfa() {
            CfaRule::Expression(expression) => self.value(expression)?,
            CfaRule::RegisterAndOffset { .. } => return None,
        };
        let is_known = cfa == Value::At(Base::Stack, signal::STACK)
            && is_at(row.register(X86_64::RA), signal::PC)
            && is_at(row.register(X86_64::RBP), signal::FRAME);
        is_known.then_some(Rule::SIGNAL)
    }
}

/// Offsets of registers in the kernel's signal frame, from the stack pointer of the handler's return.
pub mod signal {
    /// Frame pointer.
    pub const FRAME: i64 = 120;
    /// Stack pointer.
    pub const STACK: i64 = 160;
    /// Program counter.
    pub const PC: i64 = 168;
}

/// `struct dwarf_eh_bases` of libgcc.
#[repr(C)]
struct DwarfEhBases {
    text: *mut c_void,
    data: *mut c_void,
    function: *mut c_void,
}

// SAFETY: the signature of libgcc's unwind-dw2-fde.h; exported since GCC 3.0.
unsafe extern "C" {
    fn _Unwind_Find_FDE(pc: *mut c_void, bases: *mut DwarfEhBases) -> *const c_void;
}

/// Code without unwind information of its object ends the stack, as it does for libgcc, unless somebody has registered
/// some with libgcc (compilers at run time do), or it is a signal's return that libgcc knows by its instructions.
fn without_rule(pc: u64) -> Rule {
    let mut bases = std::mem::MaybeUninit::<DwarfEhBases>::uninit();
    let at = std::ptr::with_exposed_provenance_mut(pc as usize);
    let registered = loader::undisturbed(|| {
        // SAFETY: `bases` is valid for writes; nothing but tables is read.
        unsafe { !_Unwind_Find_FDE(at, bases.as_mut_ptr()).is_null() }
    });
    if registered || is_signal_return(pc) || is_signal_return(pc.wrapping_add(1)) {
        Rule::FOREIGN
    } else {
        Rule::STOP
    }
}

/// `mov $__NR_rt_sigreturn, %rax; syscall`.
fn is_signal_return(pc: u64) -> bool {
    const CODE: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];
    const PAGE: u64 = 4096;
    // On a stack, so it is mapped; what lies on the next page need not be.
    if pc % PAGE + CODE.len() as u64 > PAGE || pc == 0 {
        return false;
    }
    super::bounds::of(pc).is_some_and(|bounds| {
        bounds.holds(pc, CODE.len() as u64) && {
            let at = std::ptr::with_exposed_provenance::<[u8; CODE.len()]>(pc as usize);
            // SAFETY: the kernel has just read this page for us.
            let code = unsafe { at.read_unaligned() };
            code == CODE
        }
    })
}

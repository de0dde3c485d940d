//! From a row of the table to a hook, its copies, its exported symbol and its entry in the look-ups.

/// Rows of the driver layer: `fn symbol(arguments) as "name in reports" => recipe;`
///
/// The recipe is an expression over the arguments; it is built for every call and must be cheap (see `record`).
macro_rules! driver_table {
    ($( fn $symbol:ident ( $($argument:ident : $type:ty),* $(,)? ) as $shown:literal => $recipe:expr ; )*) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        #[repr(u16)]
        enum DriverRow { $($symbol),* }

        /// The driver's functions, in the order of the table.
        pub static DRIVER: [$crate::preload::hooks::row::Row; [$(stringify!($symbol)),*].len()] = [
            $( $crate::preload::hooks::macros::row!(Driver, driver_hooks, $symbol, $shown) ),*
        ];

        const DRIVER_NAMES: [&std::ffi::CStr; DRIVER.len()] = [
            $( $crate::preload::hooks::macros::c_name!($symbol) ),*
        ];

        #[allow(non_snake_case)]
        mod driver_hooks {
            use super::*;
            $(
                pub unsafe extern "C-unwind" fn $symbol<const SLOT: usize>($($argument: $type),*) -> Code {
                    const ID: $crate::preload::hooks::RowId = DriverRow::$symbol as _;
                    let real = DRIVER[ID as usize].real(SLOT);
                    if real.is_null() {
                        return NOT_INITIALIZED;
                    }
                    let real: unsafe extern "C-unwind" fn($($type),*) -> Code = {
                        // SAFETY: a slot holds only what a loader look-up of this very symbol returned, and the table
                        // gives that symbol's ABI; libcuda is never unloaded (its own constructor pins it).
                        unsafe { std::mem::transmute::<*const std::ffi::c_void, _>(real) }
                    };
                    $crate::preload::record::driver_call(
                        ID,
                        &mut $recipe,
                        // SAFETY: the caller's own arguments, unchanged.
                        &mut || unsafe { real($($argument),*) },
                    )
                }
            )*
        }

        /// The exported symbols: programs that link libcuda reach them by ordinary symbol binding.
        #[cfg(not(test))]
        #[allow(non_snake_case)]
        mod driver_exports {
            use super::*;
            $(
                #[unsafe(no_mangle)]
                unsafe extern "C-unwind" fn $symbol($($argument: $type),*) -> Code {
                    let target = $crate::preload::doors::exported_target(&DRIVER[DriverRow::$symbol as usize]);
                    if target.is_null() {
                        return NOT_INITIALIZED;
                    }
                    let target: unsafe extern "C-unwind" fn($($type),*) -> Code = {
                        // SAFETY: the target is one of our copies of this hook or the real function: the same ABI.
                        unsafe { std::mem::transmute::<*const std::ffi::c_void, _>(target) }
                    };
                    // SAFETY: the caller's own arguments, unchanged.
                    unsafe { target($($argument),*) }
                }
            )*
        }
    };
}

/// Rows of the runtime layer; the same shape. The exported symbol is a stub that first finds out which runtime its
/// caller means (see `doors::runtime`).
macro_rules! runtime_table {
    ($( fn $symbol:ident ( $($argument:ident : $type:ty),* $(,)? ) as $shown:literal => $recipe:expr ; )*) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        #[repr(u16)]
        enum RuntimeRow { $($symbol),* }

        /// The runtime's functions, in the order of the table.
        pub static RUNTIME: [$crate::preload::hooks::row::Row; [$(stringify!($symbol)),*].len()] = [
            $( $crate::preload::hooks::macros::row!(Runtime, runtime_hooks, $symbol, $shown) ),*
        ];

        const RUNTIME_NAMES: [&std::ffi::CStr; RUNTIME.len()] = [
            $( $crate::preload::hooks::macros::c_name!($symbol) ),*
        ];

        #[allow(non_snake_case)]
        mod runtime_hooks {
            use super::*;
            $(
                pub unsafe extern "C-unwind" fn $symbol<const SLOT: usize>($($argument: $type),*) -> Code {
                    const ID: $crate::preload::hooks::RowId = DRIVER.len() as u16 + RuntimeRow::$symbol as u16;
                    let real = RUNTIME[RuntimeRow::$symbol as usize].real(SLOT);
                    if real.is_null() {
                        return NOT_INITIALIZED;
                    }
                    let address = real as usize;
                    let real: unsafe extern "C-unwind" fn($($type),*) -> Code = {
                        // SAFETY: a slot holds only what a loader look-up of this very symbol returned, and the table
                        // gives that symbol's ABI; a caller that holds our copy holds the runtime loaded, too.
                        unsafe { std::mem::transmute::<*const std::ffi::c_void, _>(real) }
                    };
                    $crate::preload::record::runtime_call(
                        ID,
                        address,
                        &mut $recipe,
                        // SAFETY: the caller's own arguments, unchanged.
                        &mut || unsafe { real($($argument),*) },
                    )
                }
            )*
        }

        /// The exported symbols.
        #[cfg(not(test))]
        #[allow(non_snake_case)]
        mod runtime_exports {
            use super::RuntimeRow;
            $(
                #[unsafe(naked)]
                #[unsafe(no_mangle)]
                unsafe extern "C" fn $symbol() {
                    std::arch::naked_asm!(
                        $crate::preload::doors::runtime_stub!(),
                        row = const RuntimeRow::$symbol as u16,
                        target = sym $crate::preload::doors::runtime::target,
                    )
                }
            )*
        }
    };
}

macro_rules! row {
    ($layer:ident, $hooks:ident, $symbol:ident, $shown:literal) => {
        $crate::preload::hooks::row::Row::new(
            $crate::preload::hooks::macros::c_name!($symbol),
            $shown,
            $crate::preload::hooks::row::Layer::$layer,
            [
                $hooks::$symbol::<0> as *const std::ffi::c_void,
                $hooks::$symbol::<1> as *const std::ffi::c_void,
                $hooks::$symbol::<2> as *const std::ffi::c_void,
                $hooks::$symbol::<3> as *const std::ffi::c_void,
            ],
        )
    };
}

macro_rules! c_name {
    ($symbol:ident) => {
        match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($symbol), "\0").as_bytes()) {
            Ok(name) => name,
            Err(_) => panic!("a symbol cannot hold a NUL"),
        }
    };
}

pub(super) use {c_name, driver_table, row, runtime_table};

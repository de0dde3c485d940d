//! Colours, for terminals only.

/// Writes escape sequences, or leaves the text alone.
#[derive(Clone, Copy, Debug)]
pub struct Paint(pub bool);

/// A colour with a meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// Something is wrong.
    Red,
    /// Something wants a look.
    Yellow,
    /// All is well.
    Green,
}

impl Paint {
    fn wrap(self, code: &str, text: &str) -> String {
        if self.0 {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    /// In bold.
    #[must_use]
    pub fn bold(self, text: &str) -> String {
        self.wrap("1", text)
    }

    /// Less important.
    #[must_use]
    pub fn dim(self, text: &str) -> String {
        self.wrap("2", text)
    }

    /// In bold and colour.
    #[must_use]
    pub fn with(self, colour: Colour, text: &str) -> String {
        let code = match colour {
            Colour::Red => "1;31",
            Colour::Yellow => "1;33",
            Colour::Green => "1;32",
        };
        self.wrap(code, text)
    }
}

//! The code pages of RTF: those of Windows and of other systems by `encoding_rs`, those of DOS by tables.

use encoding_rs::{
    BIG5, EUC_KR, Encoding, GB18030, GBK, IBM866, ISO_8859_2, KOI8_R, MACINTOSH, SHIFT_JIS, UTF_8,
    WINDOWS_874, WINDOWS_1250, WINDOWS_1251, WINDOWS_1252, WINDOWS_1253, WINDOWS_1254,
    WINDOWS_1255, WINDOWS_1256, WINDOWS_1257, WINDOWS_1258,
};

/// How the bytes of a run of text become characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodePage {
    Known(&'static Encoding),
    /// The characters from 128 on.
    Dos(&'static str),
}

impl CodePage {
    /// What RTF has unless it says otherwise.
    pub const ANSI: Self = Self::Known(WINDOWS_1252);
    pub const MAC: Self = Self::Known(MACINTOSH);
    /// `\pc`
    pub const PC: Self = Self::Dos(CP437);
    /// `\pca`
    pub const PCA: Self = Self::Dos(CP850);

    /// By the number of `\ansicpg` and `\cpg`.
    pub fn of_number(number: i32) -> Option<Self> {
        let encoding = match number {
            437 => return Some(Self::Dos(CP437)),
            850 | 858 => return Some(Self::Dos(CP850)),
            852 => return Some(Self::Dos(CP852)),
            866 => IBM866,
            874 => WINDOWS_874,
            932 => SHIFT_JIS,
            936 => GBK,
            949 | 1361 => EUC_KR,
            950 => BIG5,
            1250 => WINDOWS_1250,
            1251 => WINDOWS_1251,
            1252 => WINDOWS_1252,
            1253 => WINDOWS_1253,
            1254 => WINDOWS_1254,
            1255 => WINDOWS_1255,
            1256 => WINDOWS_1256,
            1257 => WINDOWS_1257,
            1258 => WINDOWS_1258,
            10000 => MACINTOSH,
            20866 => KOI8_R,
            28592 => ISO_8859_2,
            54936 => GB18030,
            65001 => UTF_8,
            _ => return None,
        };
        Some(Self::Known(encoding))
    }

    /// By the number of `\fcharset`; `None` for that of the document.
    pub fn of_charset(number: i32) -> Option<Self> {
        let page = match number {
            77 => 10000,
            128 => 932,
            129 | 130 => 949,
            134 => 936,
            136 => 950,
            161 => 1253,
            162 => 1254,
            163 => 1258,
            177 => 1255,
            178 => 1256,
            186 => 1257,
            204 => 1251,
            222 => 874,
            238 => 1250,
            254 => 437,
            255 => 850,
            _ => return None,
        };
        Self::of_number(page)
    }

    pub fn decode(self, bytes: &[u8]) -> String {
        let high = match self {
            Self::Known(encoding) => {
                return encoding.decode_without_bom_handling(bytes).0.into_owned();
            }
            Self::Dos(high) => high,
        };
        let of_byte = |&byte: &u8| match byte.checked_sub(128) {
            Some(index) => high.chars().nth(index.into()).unwrap_or('\u{fffd}'),
            None => char::from(byte),
        };
        bytes.iter().map(of_byte).collect()
    }
}

const CP437: &str = "\
    ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜ¢£¥₧ƒáíóúñÑªº¿⌐¬½¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐\
    └┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\u{a0}";

const CP850: &str = "\
    ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜø£Ø×ƒáíóúñÑªº¿®¬½¼¡«»░▒▓│┤ÁÂÀ©╣║╗╝¢¥┐\
    └┴┬├─┼ãÃ╚╔╩╦╠═╬¤ðÐÊËÈıÍÎÏ┘┌█▄¦Ì▀ÓßÔÒõÕµþÞÚÛÙýÝ¯´\u{ad}±‗¾¶§÷¸°¨·¹³²■\u{a0}";

const CP852: &str = "\
    ÇüéâäůćçłëŐőîŹÄĆÉĹĺôöĽľŚśÖÜŤťŁ×čáíóúĄąŽžĘę¬źČş«»░▒▓│┤ÁÂĚŞ╣║╗╝Żż┐\
    └┴┬├─┼Ăă╚╔╩╦╠═╬¤đĐĎËďŇÍÎě┘┌█▄ŢŮ▀ÓßÔŃńňŠšŔÚŕŰýÝţ´\u{ad}˝˛ˇ˘§÷¸°¨˙űŘř■\u{a0}";

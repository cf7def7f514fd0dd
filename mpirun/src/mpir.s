/* Debug information (DWARF 4) for the symbols in mpir.rs, as a C compiler would write it: the type MPIR_PROCDESC and
 * the type of each variable. A linker that strips debug information keeps sections with these names, and mpir.ld puts
 * them into the sections that debuggers read. */

    .macro mpir_abbreviation number, tag, children
    .uleb128 \number, \tag
    .byte \children
    .endm

    .macro mpir_type label
    .4byte \label - .Lmpir_unit
    .endm

    .macro mpir_member name, type, offset
    .uleb128 5
    .asciz "\name"
    mpir_type \type
    .byte \offset
    .endm

    .macro mpir_variable name, type
    .uleb128 7
    .asciz "\name"
    mpir_type \type
    /* Nine bytes: DW_OP_addr and the address. */
    .byte 9, 0x03
    .8byte \name
    .endm

    .pushsection .mpir_abbrev, "", %progbits
.Lmpir_abbreviations:
    /* DW_TAG_compile_unit, with children: DW_AT_name, a string; DW_AT_language, a byte */
    mpir_abbreviation 1, 0x11, 1
    .uleb128 0x03, 0x08, 0x13, 0x0b, 0, 0
    /* DW_TAG_base_type: DW_AT_name, a string; DW_AT_byte_size, a byte; DW_AT_encoding, a byte */
    mpir_abbreviation 2, 0x24, 0
    .uleb128 0x03, 0x08, 0x0b, 0x0b, 0x3e, 0x0b, 0, 0
    /* DW_TAG_pointer_type: DW_AT_byte_size, a byte; DW_AT_type, a place in this unit */
    mpir_abbreviation 3, 0x0f, 0
    .uleb128 0x0b, 0x0b, 0x49, 0x13, 0, 0
    /* DW_TAG_structure_type, with children: DW_AT_byte_size, a byte */
    mpir_abbreviation 4, 0x13, 1
    .uleb128 0x0b, 0x0b, 0, 0
    /* DW_TAG_member: DW_AT_name, a string; DW_AT_type, a place; DW_AT_data_member_location, a byte */
    mpir_abbreviation 5, 0x0d, 0
    .uleb128 0x03, 0x08, 0x49, 0x13, 0x38, 0x0b, 0, 0
    /* DW_TAG_typedef: DW_AT_name, a string; DW_AT_type, a place */
    mpir_abbreviation 6, 0x16, 0
    .uleb128 0x03, 0x08, 0x49, 0x13, 0, 0
    /* DW_TAG_variable: DW_AT_name, a string; DW_AT_type, a place; DW_AT_external; DW_AT_location, an expression */
    mpir_abbreviation 7, 0x34, 0
    .uleb128 0x03, 0x08, 0x49, 0x13, 0x3f, 0x19, 0x02, 0x18, 0, 0
    /* DW_TAG_volatile_type: DW_AT_type, a place */
    mpir_abbreviation 8, 0x35, 0
    .uleb128 0x49, 0x13, 0, 0
    .byte 0
    .popsection

    .pushsection .mpir_info, "", %progbits
.Lmpir_unit:
    .4byte .Lmpir_end - .Lmpir_version
.Lmpir_version:
    .2byte 4
    .4byte .Lmpir_abbreviations
    /* Addresses have eight bytes. The unit is in DW_LANG_C99. */
    .byte 8
    .uleb128 1
    .asciz "mpir"
    .byte 0x0c
.Lmpir_int:
    .uleb128 2
    .asciz "int"
    /* DW_ATE_signed */
    .byte 4, 0x05
.Lmpir_char:
    .uleb128 2
    .asciz "char"
    /* DW_ATE_signed_char */
    .byte 1, 0x06
.Lmpir_text:
    .uleb128 3
    .byte 8
    mpir_type .Lmpir_char
.Lmpir_process:
    .uleb128 4
    .byte 24
    mpir_member host_name, .Lmpir_text, 0
    mpir_member executable_name, .Lmpir_text, 8
    mpir_member pid, .Lmpir_int, 16
    .byte 0
.Lmpir_procdesc:
    .uleb128 6
    .asciz "MPIR_PROCDESC"
    mpir_type .Lmpir_process
.Lmpir_table:
    .uleb128 3
    .byte 8
    mpir_type .Lmpir_procdesc
.Lmpir_volatile:
    .uleb128 8
    mpir_type .Lmpir_int
    mpir_variable MPIR_being_debugged, .Lmpir_volatile
    mpir_variable MPIR_proctable, .Lmpir_table
    mpir_variable MPIR_proctable_size, .Lmpir_int
    mpir_variable MPIR_debug_state, .Lmpir_volatile
    mpir_variable MPIR_debug_abort_string, .Lmpir_text
    mpir_variable MPIR_i_am_starter, .Lmpir_int
    mpir_variable MPIR_partial_attach_ok, .Lmpir_int
    mpir_variable MPIR_force_to_main, .Lmpir_int
    .byte 0
.Lmpir_end:
    .popsection

; Conversions that processors without f16c or bf16 instructions leave to a library, which no process
; is sure to have: LLVM calls them by these names. All round to nearest even; NaNs stay NaNs.

declare float @llvm.fabs.f32(float)
declare double @llvm.fabs.f64(double)

define float @__extendhfsf2(half %h) {
  %bits = bitcast half %h to i16
  %wide = zext i16 %bits to i32
  %size = and i32 %wide, 32767
  %shifted = shl i32 %size, 13
  %normal = add i32 %shifted, 939524096          ; (127 - 15) << 23
  %special.0 = add i32 %shifted, 1879048192      ; (255 - 31) << 23
  %is.nan = icmp ugt i32 %size, 31744
  %quiet = select i1 %is.nan, i32 4194304, i32 0
  %special = or i32 %special.0, %quiet
  %whole = uitofp i32 %size to float
  %tiny.f = fmul float %whole, 0x3E70000000000000 ; 2**-24
  %tiny = bitcast float %tiny.f to i32
  %is.tiny = icmp ult i32 %size, 1024
  %is.special = icmp uge i32 %size, 31744
  %some = select i1 %is.tiny, i32 %tiny, i32 %normal
  %value = select i1 %is.special, i32 %special, i32 %some
  %sign.0 = and i32 %wide, 32768
  %sign = shl i32 %sign.0, 16
  %all = or i32 %value, %sign
  %result = bitcast i32 %all to float
  ret float %result
}

define half @__truncsfhf2(float %x) {
  %bits = bitcast float %x to i32
  %size = and i32 %bits, 2147483647
  %odd.0 = lshr i32 %size, 13
  %odd = and i32 %odd.0, 1
  %up.0 = add i32 %size, 4095
  %up = add i32 %up.0, %odd
  %cut = lshr i32 %up, 13
  %normal = sub i32 %cut, 114688                 ; (127 - 15) << 10
  %abs = call float @llvm.fabs.f32(float %x)
  %aligned = fadd float %abs, 5.000000e-01       ; the last place of 0.5 is 2**-24
  %aligned.bits = bitcast float %aligned to i32
  %tiny = sub i32 %aligned.bits, 1056964608
  %payload.0 = lshr i32 %size, 13
  %payload = and i32 %payload.0, 1023
  %nan = or i32 %payload, 32256
  %is.tiny = icmp ult i32 %size, 947912704       ; 2**-14
  %is.large = icmp uge i32 %size, 1199566848     ; 65520
  %is.nan = icmp ugt i32 %size, 2139095040
  %some = select i1 %is.tiny, i32 %tiny, i32 %normal
  %more = select i1 %is.large, i32 31744, i32 %some
  %value = select i1 %is.nan, i32 %nan, i32 %more
  %sign.0 = lshr i32 %bits, 16
  %sign = and i32 %sign.0, 32768
  %all = or i32 %value, %sign
  %short = trunc i32 %all to i16
  %result = bitcast i16 %short to half
  ret half %result
}

define half @__truncdfhf2(double %x) {
  %bits = bitcast double %x to i64
  %size = and i64 %bits, 9223372036854775807
  %odd.0 = lshr i64 %size, 42
  %odd = and i64 %odd.0, 1
  %up.0 = add i64 %size, 2199023255551           ; 2**41 - 1
  %up = add i64 %up.0, %odd
  %cut = lshr i64 %up, 42
  %normal = sub i64 %cut, 1032192                ; (1023 - 15) << 10
  %abs = call double @llvm.fabs.f64(double %x)
  %aligned = fadd double %abs, 2.684354560e+08   ; the last place of 2**28 is 2**-24
  %aligned.bits = bitcast double %aligned to i64
  %tiny = sub i64 %aligned.bits, 4733283208366391296
  %payload.0 = lshr i64 %size, 42
  %payload = and i64 %payload.0, 1023
  %nan = or i64 %payload, 32256
  %is.tiny = icmp ult i64 %size, 4544132024016830464   ; 2**-14
  %is.large = icmp uge i64 %size, 4679237813814689792  ; 65520
  %is.nan = icmp ugt i64 %size, 9218868437227405312
  %some = select i1 %is.tiny, i64 %tiny, i64 %normal
  %more = select i1 %is.large, i64 31744, i64 %some
  %value = select i1 %is.nan, i64 %nan, i64 %more
  %sign.0 = lshr i64 %bits, 48
  %sign = and i64 %sign.0, 32768
  %all = or i64 %value, %sign
  %short = trunc i64 %all to i16
  %result = bitcast i16 %short to half
  ret half %result
}

define bfloat @__truncsfbf2(float %x) {
  %bits = bitcast float %x to i32
  %size = and i32 %bits, 2147483647
  %is.nan = icmp ugt i32 %size, 2139095040
  %high = lshr i32 %bits, 16
  %nan = or i32 %high, 64
  %odd = and i32 %high, 1
  %up.0 = add i32 %bits, 32767
  %up = add i32 %up.0, %odd
  %rounded = lshr i32 %up, 16
  %all = select i1 %is.nan, i32 %nan, i32 %rounded
  %short = trunc i32 %all to i16
  %result = bitcast i16 %short to bfloat
  ret bfloat %result
}

; Through a float that is rounded to odd, so that rounding twice is rounding once.
define bfloat @__truncdfbf2(double %x) {
  %near = fptrunc double %x to float
  %back = fpext float %near to double
  %exact = fcmp ueq double %back, %x
  %bits = bitcast float %near to i32
  %odd.0 = and i32 %bits, 1
  %odd = icmp ne i32 %odd.0, 0
  %keep = or i1 %exact, %odd
  %back.abs = call double @llvm.fabs.f64(double %back)
  %x.abs = call double @llvm.fabs.f64(double %x)
  %above = fcmp ogt double %back.abs, %x.abs
  %step = select i1 %above, i32 -1, i32 1
  %moved = add i32 %bits, %step
  %chosen = select i1 %keep, i32 %bits, i32 %moved
  %float = bitcast i32 %chosen to float
  %result = call bfloat @__truncsfbf2(float %float)
  ret bfloat %result
}

/* SPDX-License-Identifier: GPL-2.0 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM slotwin

#if !defined(_SLOTWIN_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _SLOTWIN_TRACE_H

#include <linux/tracepoint.h>

DECLARE_EVENT_CLASS(slotwin_move,
	TP_PROTO(u32 bdf, u32 slot, u32 writes, int err),
	TP_ARGS(bdf, slot, writes, err),
	TP_STRUCT__entry(
		__field(u32, bdf)
		__field(u32, slot)
		__field(u32, writes)
		__field(int, err)
	),
	TP_fast_assign(
		__entry->bdf = bdf;
		__entry->slot = slot;
		__entry->writes = writes;
		__entry->err = err;
	),
	TP_printk("die=%04x:%02x:%02x.%x slot=%u writes=%u err=%d",
		  __entry->bdf >> 16, (__entry->bdf >> 8) & 0xff,
		  (__entry->bdf >> 3) & 0x1f, __entry->bdf & 7,
		  __entry->slot, __entry->writes, __entry->err)
);

DEFINE_EVENT(slotwin_move, slotwin_open,
	TP_PROTO(u32 bdf, u32 slot, u32 writes, int err),
	TP_ARGS(bdf, slot, writes, err));

DEFINE_EVENT(slotwin_move, slotwin_shut,
	TP_PROTO(u32 bdf, u32 slot, u32 writes, int err),
	TP_ARGS(bdf, slot, writes, err));

#endif /* _SLOTWIN_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#define TRACE_INCLUDE_FILE slotwin_trace
#include <trace/define_trace.h>

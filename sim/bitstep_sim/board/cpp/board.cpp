// The simulated board: a verilated top, an AXI memory and a register bus behind a C interface.
#include <memory>
#include <type_traits>

#include "Vbitstep_top.h"
#include "ports.h"
#include "verilated.h"
#if VM_TRACE_FST
#include "verilated_fst_c.h"
#endif

#define API extern "C" __attribute__((visibility("default")))

namespace {

constexpr int LITE_LIMIT = 1000;     // cycles in which the register bus must answer

using RowsData = std::remove_reference_t<decltype(Vbitstep_top::m_axi_rows_rdata)>;

#define ADDRESS(prefix) AddressSignals{top->prefix##addr, top->prefix##len, top->prefix##size, \
                                       top->prefix##burst, top->prefix##valid, top->prefix##ready}
#define READ(prefix) {top->prefix##data, top->prefix##resp, top->prefix##last, \
                      top->prefix##valid, top->prefix##ready}

class Board {
public:
    Board(uint64_t base, uint64_t size, uint64_t latency, double bytes_per_cycle, double stall,
          uint64_t seed, const char* wave)
        : context{new VerilatedContext}, top{new Vbitstep_top{context.get()}},
          memory(base, size),
          timing{0, latency, Bandwidth(bytes_per_cycle), Stalls(stall, seed)},
#if BITSTEP_FINE
          fine("m_axi_fine", memory, timing, ADDRESS(m_axi_fine_ar), READ(m_axi_fine_r)),
#endif
          rows("m_axi_rows", memory, timing, ADDRESS(m_axi_rows_ar), READ(m_axi_rows_r)),
#if BITSTEP_ROW_PORTS > 1
          rows1("m_axi_rows1", memory, timing, ADDRESS(m_axi_rows1_ar), READ(m_axi_rows1_r)),
#endif
#if BITSTEP_ROW_PORTS > 2
          rows2("m_axi_rows2", memory, timing, ADDRESS(m_axi_rows2_ar), READ(m_axi_rows2_r)),
          rows3("m_axi_rows3", memory, timing, ADDRESS(m_axi_rows3_ar), READ(m_axi_rows3_r)),
#endif
          aux_read("m_axi_aux", memory, timing, ADDRESS(m_axi_aux_ar), READ(m_axi_aux_r)),
          aux_write("m_axi_aux", memory, timing, ADDRESS(m_axi_aux_aw),
                    {top->m_axi_aux_wdata, top->m_axi_aux_wstrb, top->m_axi_aux_wlast,
                     top->m_axi_aux_wvalid, top->m_axi_aux_wready, top->m_axi_aux_bresp,
                     top->m_axi_aux_bvalid, top->m_axi_aux_bready}) {
#if VM_TRACE_FST
        if (wave) {
            context->traceEverOn(true);
            trace.reset(new VerilatedFstC);
            top->trace(trace.get(), 99);
            trace->open(wave);
        }
#else
        (void)wave;
#endif
        each_port([this](const char* name, auto&) { ports += std::string(name) + " "; });
        reset(4);
    }

    ~Board() {
#if VM_TRACE_FST
        if (trace) trace->close();
#endif
        top->final();
    }

    // The memory forgets what it owes; the top must ask for nothing as long as the reset lasts.
    void reset(uint64_t cycles) {
        top->s_axi_awvalid = top->s_axi_wvalid = top->s_axi_bready = 0;
        top->s_axi_arvalid = top->s_axi_rready = 0;
        each_port([](const char*, auto& port) { port.reset(); });
        top->rst = 1;
        for (uint64_t i = 0; i < cycles; ++i) {
            half(0);
            half(1);
            check_quiet("is in use in a reset");
        }
        top->rst = 0;
    }

    // A cycle in two parts, so that the register bus can look at what the edge sees.
    void before_edge() {
        half(0);
        each_port([](const char*, auto& port) { port.sample(); });
        if (interrupt()) check_quiet("is in use although the run is done");
    }

    void edge() {
        half(1);
        timing.bandwidth.tick();
        each_port([](const char*, auto& port) { port.drive(); });
        ++timing.cycle;
    }

    bool interrupt() const { return top->__SYM__interrupt; }    // a word reserved by Verilator

    uint64_t run(uint64_t limit) {
        // An interrupt that is up from the start is of an earlier run: only its rise ends this.
        bool was_over = interrupt();
        uint64_t cycles = 0;
        while (cycles < limit && memory.violation.empty() && (was_over || !interrupt())) {
            before_edge();
            edge();
            ++cycles;
            was_over &= interrupt();
        }
        if (!was_over && interrupt()) check_quiet("is in use although the run is done");
        return cycles;
    }

    bool write(uint32_t offset, uint32_t value) {
        top->s_axi_awaddr = offset;
        top->s_axi_wdata = value;
        top->s_axi_wstrb = 0xF;
        top->s_axi_awvalid = top->s_axi_wvalid = top->s_axi_bready = 1;
        for (int i = 0; i < LITE_LIMIT; ++i) {
            before_edge();
            const bool address = top->s_axi_awvalid && top->s_axi_awready;
            const bool data = top->s_axi_wvalid && top->s_axi_wready;
            const bool answer = top->s_axi_bvalid;
            const uint8_t response = top->s_axi_bresp;
            edge();
            if (address) top->s_axi_awvalid = 0;
            if (data) top->s_axi_wvalid = 0;
            if (answer) {
                top->s_axi_bready = 0;
                return response == OKAY && !top->s_axi_awvalid && !top->s_axi_wvalid;
            }
        }
        return false;
    }

    bool read(uint32_t offset, uint32_t* value) {
        top->s_axi_araddr = offset;
        top->s_axi_arvalid = top->s_axi_rready = 1;
        for (int i = 0; i < LITE_LIMIT; ++i) {
            before_edge();
            const bool address = top->s_axi_arvalid && top->s_axi_arready;
            const bool answer = top->s_axi_rvalid;
            const uint8_t response = top->s_axi_rresp;
            *value = top->s_axi_rdata;
            edge();
            if (address) top->s_axi_arvalid = 0;
            if (answer) {
                top->s_axi_rready = 0;
                return response == OKAY && !top->s_axi_arvalid;
            }
        }
        return false;
    }

    std::unique_ptr<VerilatedContext> context;
    std::unique_ptr<Vbitstep_top> top;
    Memory memory;
    Timing timing;
#if BITSTEP_FINE
    ReadPort<uint64_t> fine;        // only pipelines that fetch rows again have this port
#endif
    ReadPort<RowsData> rows;
#if BITSTEP_ROW_PORTS > 1
    ReadPort<RowsData> rows1;
#endif
#if BITSTEP_ROW_PORTS > 2
    ReadPort<RowsData> rows2, rows3;
#endif
    ReadPort<uint64_t> aux_read;
    WritePort aux_write;

    // The n-th answer from now on of a port.
    void set_fault(const char* name, uint64_t n, Response response) {
        each_port([&](const char* own, auto& port) {
            if (!std::strcmp(own, name)) port.fault.set(n, response);
        });
    }

    std::string ports;      // names of the ports, each with a space behind it

private:
    // Once a run is done its memory may be used for something else.
    void check_quiet(const char* otherwise) {
        each_port([&](const char*, auto& port) {
            if (port.busy())
                memory.violate(timing.cycle, std::string(port.name()) + ": " + otherwise);
        });
    }

    template <class Action>
    void each_port(Action act) {
        act("rows", rows);
        act("aux_read", aux_read);
        act("aux_write", aux_write);
#if BITSTEP_FINE
        act("fine", fine);
#endif
#if BITSTEP_ROW_PORTS > 1
        act("rows1", rows1);
#endif
#if BITSTEP_ROW_PORTS > 2
        act("rows2", rows2);
        act("rows3", rows3);
#endif
    }

    void half(uint8_t level) {
        top->clk = level;
        top->eval();
#if VM_TRACE_FST
        if (trace) {
            context->timeInc(5);
            trace->dump(context->time());
        }
#endif
    }

#if VM_TRACE_FST
    std::unique_ptr<VerilatedFstC> trace;
#endif
};

}  // namespace

API Board* board_create(uint64_t base, uint64_t size, uint64_t latency, double bytes_per_cycle,
                        double stall, uint64_t seed, const char* wave) {
    try {
        return new Board(base, size, latency, bytes_per_cycle, stall, seed, wave);
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
}

API void board_destroy(Board* board) { delete board; }
API uint8_t* board_memory(Board* board) { return board->memory.data(); }
API uint64_t board_cycles(Board* board) { return board->timing.cycle; }
API bool board_interrupt(Board* board) { return board->interrupt(); }
API void board_reset(Board* board, uint64_t cycles) { board->reset(cycles); }
API uint64_t board_run(Board* board, uint64_t limit) { return board->run(limit); }
API bool board_write(Board* board, uint32_t at, uint32_t value) { return board->write(at, value); }
API bool board_read(Board* board, uint32_t at, uint32_t* value) { return board->read(at, value); }
API void board_restart_timing(Board* board) { board->timing.restart(); }
API void board_freeze(Board* board, uint64_t n) {
    board->timing.frozen_until = board->timing.cycle + n;
}
API const char* board_ports(Board* board) { return board->ports.c_str(); }
API void board_set_fault(Board* board, const char* port, uint64_t n, int response) {
    board->set_fault(port, n, static_cast<Response>(response));
}

// Pairs of offset and value, n of them; and the values of n offsets.
API bool board_write_all(Board* board, uint64_t n, const uint32_t* pairs) {
    for (uint64_t i = 0; i < n; ++i)
        if (!board->write(pairs[2 * i], pairs[2 * i + 1])) return false;
    return true;
}
API bool board_read_all(Board* board, uint64_t n, const uint32_t* offsets, uint32_t* values) {
    for (uint64_t i = 0; i < n; ++i)
        if (!board->read(offsets[i], &values[i])) return false;
    return true;
}

API uint64_t board_strays(Board* board) { return board->memory.strays; }
API uint64_t board_first_stray(Board* board) { return board->memory.first_stray; }
API const char* board_first_stray_port(Board* board) { return board->memory.first_stray_port; }
API const char* board_violation(Board* board) { return board->memory.violation.c_str(); }

// Pairs of start and size, n of them. Kind 0 is what may be accessed, 1 what answers SLVERR.
API void board_set_ranges(Board* board, int kind, uint64_t n, const uint64_t* pairs) {
    auto& ranges = kind == 0 ? board->memory.allocated_ : board->memory.broken_;
    ranges.clear();
    for (uint64_t i = 0; i < n; ++i) ranges.push_back({pairs[2 * i], pairs[2 * i + 1]});
}

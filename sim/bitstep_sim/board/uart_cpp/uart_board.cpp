// A board on a serial line: a verilated SerialSystem and the other end of the line, bit by bit.
#include <cstdint>
#include <deque>
#include <memory>

#include "Vbitstep_top.h"
#include "verilated.h"

#define API extern "C" __attribute__((visibility("default")))

// An SDRAM chip at a clock edge: cycle, control (from bit 0: CKE, CS#, RAS#, CAS#, WE#, data is
// driven, DQM, bank), address, data that is driven; returns the data pins.
using Chip = uint16_t (*)(uint64_t, uint32_t, uint32_t, uint32_t);

namespace {

class UartBoard {
public:
    explicit UartBoard(uint32_t divisor)
        : context_{new VerilatedContext}, top_{new Vbitstep_top{context_.get()}},
          divisor_{divisor} {
        top_->rx = 1;
        top_->rst = 1;
        for (int i = 0; i < 4; ++i) cycle();
        top_->rst = 0;
        cycles = 0;
    }
    ~UartBoard() { top_->final(); }

    // Run until `wanted` bytes have come, at most `limit` cycles; all that is queued is sent on the
    // way. Returns the cycles it took.
    uint64_t run(uint64_t limit, uint64_t wanted) {
        uint64_t taken = 0;
        for (; taken < limit && (wanted == 0 || received.size() < wanted); ++taken) {
            send_bit();
            cycle();
            receive_bit();
        }
        return taken;
    }

    bool sending() const { return bits_ != 0 || !queue.empty(); }
    uint8_t lights() const { return top_->lights; }

    std::deque<uint8_t> queue, received;
    uint64_t cycles = 0, framing_errors = 0;
    Chip chip = nullptr;

private:
    void cycle() {
        top_->clk = 0;
        top_->eval();
        top_->clk = 1;
        top_->eval();
        ++cycles;
#if BITSTEP_SDRAM
        // What the pins have now the chip takes at the next edge; of what it drives then, the
        // registers on the way are full two cycles from now.
        top_->sdram_d_i = pins_[0];
        pins_[0] = pins_[1];
        pins_[1] = at_chip();
        ++edges_;
#endif
    }

#if BITSTEP_SDRAM
    uint16_t at_chip() {
        const bool command = !top_->sdram_csn
            && !(top_->sdram_rasn && top_->sdram_casn && top_->sdram_wen);
        if (command || top_->sdram_d_oe) busy_ = 8;     // longer than data comes after a command
        if (busy_ == 0 || chip == nullptr) return 0;
        --busy_;
        return chip(edges_, top_->sdram_cke | top_->sdram_csn << 1 | top_->sdram_rasn << 2
                    | top_->sdram_casn << 3 | top_->sdram_wen << 4 | top_->sdram_d_oe << 5
                    | top_->sdram_dqm << 6 | top_->sdram_ba << 8, top_->sdram_a, top_->sdram_d_o);
    }

    uint16_t pins_[2] = {0, 0};
    uint64_t edges_ = 0;
    uint32_t busy_ = 0;
#endif

    // The line to the board: start bit, 8 bits, stop bit.
    void send_bit() {
        if (send_timer_ > 0) {
            --send_timer_;
            return;
        }
        if (bits_ == 0 && !queue.empty()) {
            frame_ = uint16_t(queue.front() << 1 | 0x200);
            queue.pop_front();
            bits_ = 10;
        }
        if (bits_ > 0) {
            top_->rx = frame_ & 1;
            frame_ >>= 1;
            --bits_;
            send_timer_ = divisor_ - 1;
        }
    }

    // The line from the board, sampled in the middle of each bit.
    void receive_bit() {
        if (receive_timer_ > 0) {
            --receive_timer_;
            return;
        }
        if (position_ == 0) {
            if (!top_->tx) {
                position_ = 1;
                receive_timer_ = divisor_ / 2 - 1;
            }
            return;
        }
        if (position_ == 1 && top_->tx) {       // a glitch, no start bit
            position_ = 0;
            return;
        }
        if (position_ > 1 && position_ < 10)
            byte_ = uint8_t(byte_ >> 1 | (top_->tx ? 0x80 : 0));
        receive_timer_ = divisor_ - 1;
        if (position_++ == 10) {
            if (top_->tx) received.push_back(byte_);
            else ++framing_errors;
            position_ = receive_timer_ = 0;
        }
    }

    std::unique_ptr<VerilatedContext> context_;
    std::unique_ptr<Vbitstep_top> top_;
    uint32_t divisor_, send_timer_ = 0, receive_timer_ = 0, bits_ = 0, position_ = 0;
    uint16_t frame_ = 0;
    uint8_t byte_ = 0;
};

}  // namespace

API UartBoard* uart_create(uint32_t divisor) { return new UartBoard(divisor); }
API void uart_destroy(UartBoard* board) { delete board; }
API uint64_t uart_cycles(UartBoard* board) { return board->cycles; }
API uint64_t uart_framing_errors(UartBoard* board) { return board->framing_errors; }
API uint8_t uart_lights(UartBoard* board) { return board->lights(); }
API void uart_connect(UartBoard* board, Chip chip) { board->chip = chip; }
API bool uart_sending(UartBoard* board) { return board->sending(); }
API uint64_t uart_run(UartBoard* board, uint64_t limit, uint64_t wanted) {
    return board->run(limit, wanted);
}
API void uart_send(UartBoard* board, const uint8_t* data, uint64_t n) {
    board->queue.insert(board->queue.end(), data, data + n);
}
API uint64_t uart_receive(UartBoard* board, uint8_t* data, uint64_t n) {
    uint64_t count = 0;
    for (; count < n && !board->received.empty(); ++count) {
        data[count] = board->received.front();
        board->received.pop_front();
    }
    return count;
}

// AXI slaves. Each cycle has two halves: sample() sees what the edge will see, drive() acts on it
// and sets the inputs of the next cycle.
#pragma once

#include <cinttypes>
#include <cstring>
#include <deque>

#include "memory.h"

constexpr size_t MAX_BURSTS = 16;

struct Burst {
    uint64_t address, due;
    unsigned beats, next;
    bool checked;       // whether every beat must be looked up, since some byte gives an error
};

template <class... Args>
std::string format(const char* pattern, Args... args) {
    char text[200];
    snprintf(text, sizeof text, pattern, args...);
    return text;
}

// References to the address channel of a port; AR and AW have the same signals.
struct AddressSignals {
    const uint64_t& addr;
    const uint8_t &len, &size, &burst, &valid;
    uint8_t& ready;
};

class AddressChannel {
public:
    AddressChannel(const char* name, Memory& memory, Timing& timing, AddressSignals s,
                   unsigned beat_bytes)
        : name_(name), memory_(memory), timing_(timing), s_(s), beat_bytes_(beat_bytes) {}

    void sample() {
        fired_ = s_.valid && s_.ready;
        if (offered_ && !(s_.valid && s_.addr == address_ && s_.len == length_))
            violate("was withdrawn or changed before it was accepted", address_);
        offered_ = s_.valid && !s_.ready;
        address_ = s_.addr;
        length_ = s_.len;
        size_ = s_.size;
        kind_ = s_.burst;
    }

    void drive() {
        if (fired_) accept();
        s_.ready = queue.size() < MAX_BURSTS && !timing_.stalled();
    }

    void reset() {
        s_.ready = fired_ = offered_ = false;
        queue.clear();
    }

    void violate(const char* what, uint64_t address) {
        memory_.violate(timing_.cycle, format("%s: burst at 0x%" PRIx64 " %s", name_, address, what));
    }

    // A burst is offered or not yet answered.
    bool busy() const { return s_.valid || !queue.empty(); }

    std::deque<Burst> queue;

private:
    void accept() {
        const unsigned beats = length_ + 1u;
        const uint64_t n_bytes = uint64_t(beats) * beat_bytes_;
        if (beats > 16) violate("has more than 16 beats", address_);
        if (kind_ != 1) violate("is not of type INCR", address_);
        if ((1u << size_) != beat_bytes_) violate("has beats narrower than the bus", address_);
        if (address_ % beat_bytes_) violate("is not aligned to a beat", address_);
        if (address_ / 4096 != (address_ + n_bytes - 1) / 4096) violate("crosses 4 KiB", address_);
        const bool checked = memory_.response(address_, n_bytes) != OKAY;
        queue.push_back({address_, timing_.cycle + timing_.latency, beats, 0, checked});
    }

    const char* name_;
    Memory& memory_;
    Timing& timing_;
    AddressSignals s_;
    unsigned beat_bytes_;
    bool fired_ = false, offered_ = false;
    uint64_t address_ = 0;
    uint8_t length_ = 0, size_ = 0, kind_ = 0;
};

// Read port whose data signal has type Data: an integer, or VlWide for wide buses.
template <class Data>
class ReadPort {
public:
    struct Signals {
        Data& data;
        uint8_t &resp, &last, &valid;
        const uint8_t& ready;
    };

    ReadPort(const char* name, Memory& memory, Timing& timing, AddressSignals ar, Signals r)
        : name_(name), memory_(memory), timing_(timing), r_(r),
          address_(name, memory, timing, ar, sizeof(Data)) {}

    void sample() {
        address_.sample();
        fired_ = r_.valid && r_.ready;
    }

    void drive() {
        address_.drive();
        if (fired_) {
            r_.valid = 0;
            Burst& burst = address_.queue.front();
            if (++burst.next == burst.beats) address_.queue.pop_front();
        }
        if (!r_.valid && !address_.queue.empty()) offer(address_.queue.front());
    }

    void reset() {
        r_.valid = fired_ = false;
        address_.reset();
    }

    bool busy() const { return address_.busy() || r_.valid; }
    const char* name() const { return name_; }

    Fault fault;

private:
    void offer(const Burst& burst) {
        if (burst.due > timing_.cycle + 1 || !timing_.bandwidth.available() || timing_.stalled())
            return;
        const uint64_t at = burst.address + uint64_t(burst.next) * sizeof(Data);
        const Response found = burst.checked ? memory_.response(at, sizeof(Data)) : OKAY;
        const Response response = fault.answer(found);
        if (found == DECERR) memory_.stray(name_, at);
        if (response == OKAY)
            std::memcpy(&r_.data, memory_.at(at), sizeof(Data));
        else
            std::memset(&r_.data, 0xEE, sizeof(Data));
        timing_.bandwidth.spend(sizeof(Data));
        r_.resp = response;
        r_.last = burst.next + 1 == burst.beats;
        r_.valid = 1;
    }

    const char* name_;
    Memory& memory_;
    Timing& timing_;
    Signals r_;
    AddressChannel address_;
    bool fired_ = false;
};

// Write port of 64 bits. Data is accepted once its address is.
class WritePort {
public:
    struct Signals {
        const uint64_t& data;
        const uint8_t &strb, &last, &valid;
        uint8_t& ready;
        uint8_t &resp, &bvalid;
        const uint8_t& bready;
    };

    WritePort(const char* name, Memory& memory, Timing& timing, AddressSignals aw, Signals s)
        : name_(name), memory_(memory), timing_(timing), s_(s),
          address_(name, memory, timing, aw, 8) {}

    void sample() {
        address_.sample();
        fired_ = s_.valid && s_.ready;
        if (offered_ && !(s_.valid && s_.data == data_ && s_.strb == strobe_ && s_.last == last_))
            address_.violate("had data withdrawn or changed before it was accepted", front());
        offered_ = s_.valid && !s_.ready;
        data_ = s_.data;
        strobe_ = s_.strb;
        last_ = s_.last;
        if (s_.bvalid && s_.bready) {
            responses_.pop_front();
            answered_ = true;
        }
    }

    void drive() {
        address_.drive();
        if (fired_) accept(address_.queue.front());
        s_.ready = !address_.queue.empty() && timing_.bandwidth.available() && !timing_.stalled();
        if (answered_) s_.bvalid = answered_ = false;
        if (!s_.bvalid && !responses_.empty() && responses_.front().due <= timing_.cycle + 1
            && !timing_.stalled()) {
            s_.resp = fault.answer(responses_.front().response);
            s_.bvalid = 1;
        }
    }

    void reset() {
        s_.ready = s_.bvalid = fired_ = offered_ = answered_ = false;
        response_ = OKAY;
        responses_.clear();
        address_.reset();
    }

    bool busy() const {
        return address_.busy() || s_.valid || s_.bvalid || !responses_.empty();
    }
    const char* name() const { return name_; }

    Fault fault;        // of a burst's response

private:
    struct Answer {
        uint64_t due;
        Response response;
    };

    uint64_t front() const { return address_.queue.empty() ? 0 : address_.queue.front().address; }

    void accept(Burst& burst) {
        const uint64_t at = burst.address + uint64_t(burst.next) * 8;
        const Response response = burst.checked ? memory_.response(at, 8) : OKAY;
        if (response == DECERR) memory_.stray(name_, at);
        if (response == OKAY)
            for (unsigned i = 0; i < 8; ++i)
                if (strobe_ >> i & 1) memory_.at(at)[i] = uint8_t(data_ >> 8 * i);
        if (response > response_) response_ = response;
        timing_.bandwidth.spend(8);
        const bool last = ++burst.next == burst.beats;
        if (last != bool(last_)) address_.violate("has WLAST at the wrong beat", burst.address);
        if (last) {
            responses_.push_back({timing_.cycle + timing_.latency, response_});
            response_ = OKAY;
            address_.queue.pop_front();
        }
    }

    const char* name_;
    Memory& memory_;
    Timing& timing_;
    Signals s_;
    AddressChannel address_;
    std::deque<Answer> responses_;
    Response response_ = OKAY;
    bool fired_ = false, offered_ = false, answered_ = false;
    uint64_t data_ = 0;
    uint8_t strobe_ = 0, last_ = 0;
};

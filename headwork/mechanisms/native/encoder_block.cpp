// One encoder block with pre-normalisation, forward and backward: the native twin of `encoder_layer`.
//
//     N1 = normalise(X)                  R = X + softmax(Q K^T) V W_o^T + b_o
//     Q, K, V = N1 W^T + b               N2 = normalise(R)
//     Y = R + f(N2 W_1 + b_1) W_2 + b_2
//
// Order. One image at a time goes through the whole block, so that all it needs stays in the processor's
// cache; the images are shared out among the threads. The backward pass reads what the forward pass kept of
// each image (`Kept`): recomputing costs more than reading it. Each thread adds up the gradients of the
// weights of its own images; they are summed in the order of the threads, so that two runs with equally many
// threads are equal to the bit.
//
// Layout. A matrix of activations is cut into panels of 16 columns, one panel after the other, each with its
// rows one below the other: element (row, column) stands at (column / 16) * rows * 16 + row * 16 + column
// % 16. So every product reads 16 neighbours of its right side as vectors and single numbers of its left
// side, and a head of width 16 is one panel (one of width 24 is two, the rest zeros). Weights are packed once per call in the same way. The gain and
// shift of the normalisations and the 1 / sqrt(head width) of the scores are folded into the packed weights,
// and their gradients are unfolded at the end.
//
// Sizes are known to the compiler (-D): TOKENS, OUTPUTS (so many first tokens are computed; all attend to
// all), WIDTH, HEADS, HIDDEN, REAL (float or double), VECTOR_BYTES (64 or 32), RELU (1, or 0 for GELU).

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "panels.h"

namespace {

template <int M, int N, int ROWS>
inline void add_rows(Panels<ROWS> rows, Real* total) {
    for (int column = 0; column < N; column++)
        for (int part = 0; part < PARTS; part++) {
            Vector s = load(total + column * PANEL + part * LANES);
            for (int row = 0; row < M; row++) s += load(rows.at(row, column, part * LANES));
            store(total + column * PANEL + part * LANES, s);
        }
}

// --- normalisation ----------------------------------------------------------------------------------------
constexpr int WIDE = D / LANES;  // vectors per token

// Rows of `from(row, i)`, normalised, into panels; the inverse deviation of each into `inverse`.
template <int M, class From>
inline void normalise(From from, Panels<M> to, Real* inverse, double epsilon) {
    for (int row = 0; row < M; row++) {
        Vector x[WIDE], total = {}, squares = {};
        for (int i = 0; i < WIDE; i++) total += x[i] = from(row, i);
        Vector mean = sum(total) / all(D);
        for (int i = 0; i < WIDE; i++) {
            x[i] -= mean;
            squares += x[i] * x[i];
        }
        inverse[row] = Real(1) / std::sqrt(sum(squares)[0] / D + Real(epsilon));
        for (int i = 0; i < WIDE; i++)
            store(to.at(row, i / PARTS, i % PARTS * LANES), x[i] * all(inverse[row]));
    }
}

// The gradient of a row before normalisation, from that after it; `take(row, i, vector)` receives it.
template <int M, class Take>
inline void normalise_backward(Panels<M> gradient, Panels<M> normal, const Real* inverse, Take take) {
    for (int row = 0; row < M; row++) {
        Vector g[WIDE], n[WIDE], total = {}, along = {};
        for (int i = 0; i < WIDE; i++) {
            g[i] = load(gradient.at(row, i / PARTS, i % PARTS * LANES));
            n[i] = load(normal.at(row, i / PARTS, i % PARTS * LANES));
            total += g[i];
            along += g[i] * n[i];
        }
        Vector mean = sum(total) / all(D), slope = sum(along) / all(D), scale = all(inverse[row]);
        for (int i = 0; i < WIDE; i++) take(row, i, scale * (g[i] - mean - n[i] * slope));
    }
}

// --- softmax ----------------------------------------------------------------------------------------------
constexpr int ACROSS = (T + LANES - 1) / LANES;  // vectors per row of scores; what is beyond is never read

inline void softmax(Real* scores) {
    for (int row = 0; row < R; row++, scores += KEYS) {
        Vector s[ACROSS], top, total = {};
#pragma GCC unroll 16
        for (int i = 0; i < ACROSS; i++) {
            s[i] = load(scores + i * LANES);
            if ((i + 1) * LANES > T) s[i] = TABLES.at(TABLES.is_key + i * LANES) ? s[i] : all(-1e30);
            top = i ? larger(s[i], top) : s[i];
        }
        top = across(top, larger);
#pragma GCC unroll 16
        for (int i = 0; i < ACROSS; i++) {
            s[i] = exponential<Real>(s[i] - top);
            if ((i + 1) * LANES > T) s[i] = TABLES.at(TABLES.is_key + i * LANES) ? s[i] : Vector{};
            total += s[i];
        }
        Vector scale = all(1) / sum(total);
#pragma GCC unroll 16
        for (int i = 0; i < ACROSS; i++) store(scores + i * LANES, s[i] * scale);
    }
}

// The gradient of the scores in place of that of the weights: A (dA - (A . dA)).
inline void softmax_backward(const Real* weights, Real* gradient) {
    for (int row = 0; row < R; row++, weights += KEYS, gradient += KEYS) {
        Vector total = {};
#pragma GCC unroll 16
        for (int i = 0; i < ACROSS; i++) total += load(weights + i * LANES) * load(gradient + i * LANES);
        Vector along = sum(total);
#pragma GCC unroll 16
        for (int i = 0; i < ACROSS; i++)
            store(gradient + i * LANES, load(weights + i * LANES) * (load(gradient + i * LANES) - along));
    }
}

// A head's rows as columns, in panels of 16 of them, the last one padded with zeros: square blocks, in each
// of which the off-diagonal quarters are exchanged, then the quarters of the quarters.
inline void transpose(Panels<T> from, int column, Real* to) {
    for (int row = 0; row < KEYS; row += LANES)
        for (int k = 0; k < HEAD; k += LANES) {
            Vector v[LANES];
#pragma GCC unroll 16
            for (int i = 0; i < LANES; i++)
                v[i] = row + i < T ? load(from.at(row + i, column + k / PANEL, k % PANEL)) : Vector{};
#pragma GCC unroll 8
            for (int step = LANES / 2; step; step /= 2)
#pragma GCC unroll 16
                for (int i = 0; i < LANES; i++)
                    if (!(i & step)) {
                        Vector a = v[i], b = v[i + step];
                        v[i] = __builtin_shuffle(a, b, TABLES.at(TABLES.low[step]));
                        v[i + step] = __builtin_shuffle(a, b, TABLES.at(TABLES.high[step]));
                    }
#pragma GCC unroll 16
            for (int i = 0; i < LANES; i++)
                store(to + (row / PANEL * HEAD + k + i) * PANEL + row % PANEL, v[i]);
        }
}

// --- weights ----------------------------------------------------------------------------------------------
constexpr size_t QKV = size_t(D) * 3 * INNER, MIX = size_t(D) * INNER, FEED = size_t(D) * F;

// Of one block, in torch's order and layout: W_q, W_k, W_v, W_o and their biases, which apply as W x, and the
// others, which apply as x W.
struct Weights {
    const Real *W[4], *b[4], *gain_1, *shift_1, *gain_2, *shift_2, *W_1, *b_1, *W_2, *b_2;
};
// Column j of the queries, keys and values in panels: of which of them, and which of its columns in torch.
inline bool is_padding(int j) { return j % HEAD >= USED; }
inline int column(int j) { return j % INNER / HEAD * USED + j % HEAD; }
inline Real projection(const Weights& w, int k, int j) {
    return is_padding(j) ? Real(0) : w.W[j / INNER][size_t(column(j)) * D + k];
}
inline Real output(const Weights& w, int j, int n) {
    return is_padding(j) ? Real(0) : w.W[3][size_t(n) * D + column(j)];
}
const Real SCALE = Real(1) / std::sqrt(Real(USED));
inline Real scale(int j) { return j < INNER ? SCALE : Real(1); }

// Gradients of packed weights, and of biases.
struct Sums {
    Real qkv[QKV], mix[MIX], first[FEED], second[FEED], b_qkv[3 * INNER], b_o[D], b_1[F], b_2[D];
};

// element(k, n) of a matrix of K x N, in panels.
template <class Element>
inline void pack(int K, int N, Real* to, Element element) {
    for (int column = 0; column < N / PANEL; column++)
        for (int k = 0; k < K; k++)
            for (int lane = 0; lane < PANEL; lane++) *to++ = element(k, column * PANEL + lane);
}
template <int K>
inline size_t packed(int k, int n) {
    return (size_t(n / PANEL) * K + k) * PANEL + n % PANEL;
}

struct Forward {  // packed weights of the forward pass, with gains, shifts and scale folded in
    Real qkv[QKV], mix[MIX], first[FEED], second[FEED], b_qkv[3 * INNER], b_o[D], b_1[F], b_2[D];
    void fill(const Weights& w) {
        pack(D, 3 * INNER, qkv, [&](int k, int n) { return projection(w, k, n) * w.gain_1[k] * scale(n); });
        pack(INNER, D, mix, [&](int k, int n) { return output(w, k, n); });
        pack(D, F, first, [&](int k, int n) { return w.W_1[size_t(k) * F + n] * w.gain_2[k]; });
        pack(F, D, second, [&](int k, int n) { return w.W_2[size_t(k) * D + n]; });
        for (int j = 0; j < 3 * INNER; j++) {
            Real total = is_padding(j) ? Real(0) : w.b[j / INNER][column(j)];
            for (int k = 0; k < D; k++) total += projection(w, k, j) * w.shift_1[k];
            b_qkv[j] = total * scale(j);
        }
        std::memcpy(b_1, w.b_1, sizeof b_1);
        for (int k = 0; k < D; k++)
            for (int j = 0; j < F; j++) b_1[j] += w.shift_2[k] * w.W_1[size_t(k) * F + j];
        std::memcpy(b_o, w.b[3], sizeof b_o);
        std::memcpy(b_2, w.b_2, sizeof b_2);
    }
};

struct Backward {  // the same matrices the other way round
    Real qkv[QKV], mix[MIX], first[FEED], second[FEED];
    void fill(const Weights& w) {
        pack(3 * INNER, D, qkv, [&](int k, int n) { return projection(w, n, k) * w.gain_1[n] * scale(k); });
        pack(D, INNER, mix, [&](int k, int n) { return output(w, n, k); });
        pack(F, D, first, [&](int k, int n) { return w.W_1[size_t(n) * F + k] * w.gain_2[n]; });
        pack(D, F, second, [&](int k, int n) { return w.W_2[size_t(n) * D + k]; });
    }
};

// --- one image --------------------------------------------------------------------------------------------
struct Kept {  // of an image, for the backward pass
    Real normal_1[T * D], qkv[T * 3 * INNER], weights[HEADS * R * KEYS], mixed[R * INNER], normal_2[R * D],
        active[R * F], slope[R * F], inverse_1[KEYS], inverse_2[KEYS];
};

struct Scratch {  // of a thread
    Real right[HEAD * KEYS], tokens[R * D], gradient[R * D], wide[T * D], hidden[R * F], scores[R * KEYS],
        d_qkv[T * 3 * INNER], mixed[R * INNER];
};

constexpr int DP = D / PANEL, FP = F / PANEL, HP = HEAD / PANEL, IP = INNER / PANEL;  // panels

inline void forward(const Real* x, const Forward& w, Kept& kept, Scratch& scratch, Real* y, double epsilon) {
    Panels<T> normal_1{kept.normal_1}, qkv{kept.qkv};
    Panels<R> mixed{kept.mixed}, tokens{scratch.tokens}, normal_2{kept.normal_2}, active{kept.active};
    normalise<T>([&](int row, int i) { return load(x + size_t(row) * D + i * LANES); }, normal_1,
                 kept.inverse_1, epsilon);

    auto biased = [&](int, int column, int lane) { return load(w.b_qkv + column * PANEL + lane); };
    auto keep_qkv = [&](int row, int column, int lane, Vector v) { store(qkv.at(row, column, lane), v); };
    times<R, IP, D>(normal_1, w.qkv, biased, keep_qkv);
    times<T, 2 * IP, D>(
        normal_1, w.qkv + MIX, [&](int r, int c, int lane) { return biased(r, c + IP, lane); },
        [&](int r, int c, int lane, Vector v) { keep_qkv(r, c + IP, lane, v); });

    auto nothing = [](int, int, int) { return Vector{}; };
    for (int head = 0; head < HEADS; head++) {
        Real* weights = kept.weights + size_t(head) * R * KEYS;
        transpose(qkv, IP + head * HP, scratch.right);
        times<R, KEYS / PANEL, HEAD>(
            Panels<T>{qkv.at(0, head * HP)}, scratch.right, nothing,
            [&](int row, int c, int lane, Vector v) { store(weights + row * KEYS + c * PANEL + lane, v); });
        softmax(weights);
        multiply<R, HP, T, T, KEYS, 1>(
            [&](int row) { return weights + row * KEYS; }, 0, qkv.at(0, 2 * IP + head * HP), Panels<T>::panel,
            nothing,
            [&](int row, int c, int lane, Vector v) { store(mixed.at(row, head * HP + c, lane), v); });
    }
    times<R, DP, INNER>(
        mixed, w.mix,
        [&](int row, int c, int lane) {
            return load(x + size_t(row) * D + c * PANEL + lane) + load(w.b_o + c * PANEL + lane);
        },
        [&](int row, int c, int lane, Vector v) { store(tokens.at(row, c, lane), v); });

    normalise<R>([&](int row, int i) { return load(tokens.at(row, i / PARTS, i % PARTS * LANES)); }, normal_2,
                 kept.inverse_2, epsilon);
    times<R, FP, D>(
        normal_2, w.first, [&](int, int c, int lane) { return load(w.b_1 + c * PANEL + lane); },
        [&](int row, int c, int lane, Vector v) { store(active.at(row, c, lane), v); });
    for (Real *value = kept.active, *derivative = kept.slope; value < kept.active + R * F;
         value += LANES, derivative += LANES) {
        Vector f, slope;
        activate(load(value), f, slope);
        store(value, f);
        store(derivative, slope);
    }
    times<R, DP, F>(
        active, w.second,
        [&](int row, int c, int lane) {
            return load(tokens.at(row, c, lane)) + load(w.b_2 + c * PANEL + lane);
        },
        [&](int row, int c, int lane, Vector v) { store(y + size_t(row) * D + c * PANEL + lane, v); });
}

inline void backward(const Real* dy, const Backward& w, Kept& kept, Scratch& scratch, Sums& sums, Real* dx) {
    Panels<T> normal_1{kept.normal_1}, qkv{kept.qkv}, d_qkv{scratch.d_qkv}, wide{scratch.wide};
    Panels<R> mixed{kept.mixed}, normal_2{kept.normal_2}, active{kept.active}, slope{kept.slope};
    Panels<R> dr{scratch.tokens}, gradient{scratch.gradient}, hidden{scratch.hidden}, d_mixed{scratch.mixed};
    auto nothing = [](int, int, int) { return Vector{}; };

    for (int row = 0; row < R; row++)
        for (int i = 0; i < WIDE; i++)
            store(dr.at(row, i / PARTS, i % PARTS * LANES), load(dy + size_t(row) * D + i * LANES));
    times<R, FP, D>(dr, w.second, nothing, [&](int row, int c, int lane, Vector v) {
        store(hidden.at(row, c, lane), v * load(slope.at(row, c, lane)));
    });
    add_gradient<R, DP, F>(active, dr, sums.second);
    add_rows<R, DP>(dr, sums.b_2);
    times<R, DP, F>(hidden, w.first, nothing,
                    [&](int row, int c, int lane, Vector v) { store(gradient.at(row, c, lane), v); });
    add_gradient<R, FP, D>(normal_2, hidden, sums.first);
    add_rows<R, FP>(hidden, sums.b_1);
    normalise_backward<R>(gradient, normal_2, kept.inverse_2, [&](int row, int i, Vector v) {
        Real* place = dr.at(row, i / PARTS, i % PARTS * LANES);
        store(place, load(place) + v);
    });

    times<R, IP, D>(dr, w.mix, nothing,
                    [&](int row, int c, int lane, Vector v) { store(d_mixed.at(row, c, lane), v); });
    add_gradient<R, DP, INNER>(mixed, dr, sums.mix);
    add_rows<R, DP>(dr, sums.b_o);
    for (int head = 0; head < HEADS; head++) {
        const Real* weights = kept.weights + size_t(head) * R * KEYS;
        Real *scores = scratch.scores, *dO = d_mixed.at(0, head * HP);
        transpose(qkv, 2 * IP + head * HP, scratch.right);
        times<R, KEYS / PANEL, HEAD>(
            Panels<R>{dO}, scratch.right, nothing,
            [&](int row, int c, int lane, Vector v) { store(scores + row * KEYS + c * PANEL + lane, v); });
        softmax_backward(weights, scores);
        auto into = [&](int third) {
            return [&, third](int row, int c, int lane, Vector v) {
                store(d_qkv.at(row, third * IP + head * HP + c, lane), v);
            };
        };
        multiply<T, HP, R, R, 1, KEYS>([&](int row) { return weights + row; }, 0, dO, Panels<R>::panel,
                                       nothing, into(2));
        multiply<R, HP, T, T, KEYS, 1>([&](int row) { return scores + row * KEYS; }, 0,
                                       qkv.at(0, IP + head * HP), Panels<T>::panel, nothing, into(0));
        multiply<T, HP, R, R, 1, KEYS>([&](int row) { return scores + row; }, 0, qkv.at(0, head * HP),
                                       Panels<T>::panel, nothing, into(1));
    }

    auto keep_wide = [&](int row, int c, int lane, Vector v) { store(wide.at(row, c, lane), v); };
    if constexpr (R == T) {
        times<T, DP, 3 * INNER>(d_qkv, w.qkv, nothing, keep_wide);
        add_gradient<T, 3 * IP, D>(normal_1, d_qkv, sums.qkv);
        add_rows<T, 3 * IP>(d_qkv, sums.b_qkv);
    } else {  // queries of the first tokens only
        Panels<T> rest{d_qkv.at(0, IP)};
        constexpr size_t panel = size_t(3 * INNER) * PANEL;
        multiply<T, DP, 2 * INNER, PANEL, PANEL, 1>(
            [&](int row) { return rest.data + row * PANEL; }, Panels<T>::panel,
            w.qkv + size_t(INNER) * PANEL, panel, nothing, keep_wide);
        multiply<R, DP, INNER, PANEL, PANEL, 1>(
            [&](int row) { return d_qkv.data + row * PANEL; }, Panels<T>::panel, w.qkv, panel,
            [&](int row, int c, int lane) { return load(wide.at(row, c, lane)); }, keep_wide);
        add_gradient<T, 2 * IP, D>(normal_1, rest, sums.qkv + MIX);
        add_gradient<R, IP, D>(normal_1, d_qkv, sums.qkv);
        add_rows<T, 2 * IP>(rest, sums.b_qkv + INNER);
        add_rows<R, IP>(d_qkv, sums.b_qkv);
    }
    normalise_backward<T>(wide, normal_1, kept.inverse_1, [&](int row, int i, Vector v) {
        if (row < R) v += load(dr.at(row, i / PARTS, i % PARTS * LANES));
        store(dx + size_t(row) * D + i * LANES, v);
    });
}

// --- gradients of the weights as torch has them -----------------------------------------------------------
// Packed: W' = W gain, b' = b + W shift. So dW = dW' gain + db' shift, dgain = sum W dW', dshift = W^T db'.
struct Gradients {
    Real *W[4], *b[4], *gain_1, *shift_1, *gain_2, *shift_2, *W_1, *b_1, *W_2, *b_2;
};

void unfold(const Sums& s, const Weights& w, Gradients g) {
    for (int k = 0; k < D; k++) g.gain_1[k] = g.shift_1[k] = 0;
    for (int j = 0; j < 3 * INNER; j++) {
        if (is_padding(j)) continue;
        Real* matrix = g.W[j / INNER] + size_t(column(j)) * D;
        const Real *row = w.W[j / INNER] + size_t(column(j)) * D, db = s.b_qkv[j] * scale(j);
        g.b[j / INNER][column(j)] = db;
        for (int k = 0; k < D; k++) {
            Real d = s.qkv[packed<D>(k, j)] * scale(j);
            matrix[k] = d * w.gain_1[k] + db * w.shift_1[k];
            g.gain_1[k] += row[k] * d;
            g.shift_1[k] += row[k] * db;
        }
    }
    for (int k = 0; k < D; k++) {
        Real gain = 0, shift = 0;
        for (int j = 0; j < F; j++) {
            Real d = s.first[packed<D>(k, j)], weight = w.W_1[size_t(k) * F + j];
            g.W_1[size_t(k) * F + j] = d * w.gain_2[k] + s.b_1[j] * w.shift_2[k];
            gain += weight * d;
            shift += weight * s.b_1[j];
        }
        g.gain_2[k] = gain;
        g.shift_2[k] = shift;
    }
    for (int k = 0; k < INNER; k++)
        for (int j = 0; j < D && !is_padding(k); j++)
            g.W[3][size_t(j) * D + column(k)] = s.mix[packed<INNER>(k, j)];
    for (int k = 0; k < F; k++)
        for (int j = 0; j < D; j++) g.W_2[size_t(k) * D + j] = s.second[packed<F>(k, j)];
    std::memcpy(g.b[3], s.b_o, sizeof s.b_o);
    std::memcpy(g.b_1, s.b_1, sizeof s.b_1);
    std::memcpy(g.b_2, s.b_2, sizeof s.b_2);
}

// --- all images -------------------------------------------------------------------------------------------
template <class Item>
struct Array {  // zeros, aligned for vectors
    Item* items;
    explicit Array(size_t count) {
        size_t bytes = (count * sizeof(Item) + 63) / 64 * 64;
        items = static_cast<Item*>(std::aligned_alloc(64, bytes));
        if (items) std::memset(static_cast<void*>(items), 0, bytes);
    }
    ~Array() { std::free(items); }
    Array(const Array&) = delete;
    Array& operator=(const Array&) = delete;
};

// Brings what was kept of the next image nearer while this one is worked on: 6% of a step.
inline void fetch_ahead(const Kept* next) {
    for (size_t i = 0; i < sizeof(Kept); i += 64)
        __builtin_prefetch(reinterpret_cast<const char*>(next) + i, 0, 2);
}

// work(thread, image) for each image; a thread takes neighbouring ones.
template <class Work>
void share_out(int64_t images, int threads, Work work) {
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (int thread = 0; thread < threads; thread++)
        for (int64_t image = images * thread / threads; image < images * (thread + 1) / threads; image++)
            work(thread, image);
}

}  // namespace

extern "C" {

int64_t kept_numbers() { return sizeof(Kept) / sizeof(Real); }

// Returns 0, or 1 where memory is short. Without `kept`, nothing is kept for a backward pass.
int forward_pass(const Real* x, const Weights* weights, double epsilon, int64_t images, int threads, Real* y,
                 Real* kept) {
    Array<Forward> packed(1);
    Array<Scratch> scratch(threads);
    Array<Kept> own(kept ? 0 : threads);
    if (!packed.items || !scratch.items || !own.items) return 1;
    packed.items->fill(*weights);
    share_out(images, threads, [&](int thread, int64_t image) {
        Kept& here = kept ? reinterpret_cast<Kept*>(kept)[image] : own.items[thread];
        forward(x + image * T * D, *packed.items, here, scratch.items[thread], y + image * R * D, epsilon);
    });
    return 0;
}

int backward_pass(const Real* dy, const Weights* weights, int64_t images, int threads, Real* kept, Real* dx,
                  const Gradients* gradients) {
    Array<Backward> packed(1);
    Array<Scratch> scratch(threads);
    Array<Sums> sums(threads);
    if (!packed.items || !scratch.items || !sums.items) return 1;
    packed.items->fill(*weights);
    share_out(images, threads, [&](int thread, int64_t image) {
        Kept& here = reinterpret_cast<Kept*>(kept)[image];
        if (image + 1 < images) fetch_ahead(&here + 1);
        backward(dy + image * R * D, *packed.items, here, scratch.items[thread], sums.items[thread],
                 dx + image * T * D);
    });
    Real* total = reinterpret_cast<Real*>(sums.items);
    for (int thread = 1; thread < threads; thread++)
        for (size_t i = 0; i < sizeof(Sums) / sizeof(Real); i++)
            total[i] += total[thread * (sizeof(Sums) / sizeof(Real)) + i];
    unfold(*sums.items, *weights, *gradients);
    return 0;
}
}
